"""Node types and parameters that the words of a request suggest, which its prompt describes in full.

The words determine only how long the description of a type is; other types are offered by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_FILES = r"\b(?:docx?|word (?:file|doc\w*)|pdfs?|pptx?|powerpoint|slides?|xlsx?|excel|spreadsheets?|files?|documents?|attachments?)\b|文件|文档|附件|表格|幻灯片"

WORDS: Mapping[str, str] = {
    "question-classifier": r"\b(?:class\w*|categor\w*|sort(?:s|ed|ing)? (?:\w+ ){0,4}into|route[sd]?|routing|intent|topic)\b|分类|归类|类别|意图|分流",
    "code": r"\b(?:code|comput\w*|calculat\w*|count\w*|number of|how many|sums?|totals?|average|percent\w*|duplicates?|dedup\w*|exact\w*|sort(?:s|ed|ing)?|random\w*|dates?|json|regex\w*|limit\w*|word count)\b"
    r"|代码|计算|统计|数量|字数|总和|合计|平均|去重|排序|百分|随机|日期",
    "document-extractor": rf"\b(?:upload\w*|resumes?|papers?)\b|{_FILES}|上传|简历|论文",
    "if-else": r"\b(?:if|when|whenever|unless|otherwise|else|whether|(?:more|less|longer|shorter|fewer|greater|higher|lower) than|at (?:least|most)|above|below|over|under|exceed\w*|empty|depend\w*|only for|in case)\b"
    r"|如果|若|当|否则|不然|超过|超出|大于|小于|多于|少于|高于|低于|不足|至少|至多|为空|是否|时(?:才|就)|只有|[的时]话",
    "list-operator": r"\b(?:first|last|top|filter\w*|limit\w*|sort(?:s|ed|ing)?|order(?:s|ed)? by)\b|前\w个|前几|第一|最后一|筛选|过滤|排序",
    "parameter-extractor": r"\b(?:extract\w*|fields?|pick out|pull out|read out|parse[sd]?|structured)\b|提取|抽取|字段|识别出|解析",
    "template-transform": r"\b(?:templates?|jinja\w*|fill in|placeholders?|lay ?out|concat\w*|join(?:s|ed)?|put together|combin\w*)\b|模板|拼接|合并|套用|格式",
    "variable-aggregator": r"\b(?:if|unless|otherwise|when|either|branch\w*|class\w*|categor\w*|merg\w*|approv\w*)\b|如果|若|否则|分支|分类|合并|批准|审核",
    "iteration": r"\b(?:each|every|per|one by one|items?|lists?|loop\w*|several|multiple)\b|每|逐|各|分别|列表|循环|多个|多份",
    "tts": r"\b(?:audio|voices?|speech|spoken|speak\w*|read (?:it |them |this |that )?(?:aloud|out)|aloud|listen|podcasts?|mp3|narrat\w*)\b|语音|朗读|音频|配音|播报|念|读出",
    "text2image": r"\b(?:images?|pictures?|illustrat\w*|covers?|draw\w*|posters?|photos?|logos?|paint\w*|banners?)\b|图片|图像|配图|封面|海报|插画|插图|画|图",
    "mermaid-converter": r"\b(?:diagrams?|flow ?charts?|mermaid|mind ?maps?|gantt|timelines?)\b|流程图|思维导图|脑图|示意图|时序图|甘特图",
    "markdown-exporter": rf"{_FILES}|\b(?:export\w*|download\w*|html|markdown)\b|导出|下载",
    "google-search": r"\b(?:search\w*|google|web|internet|online|news|latest|look\w* up|up.to.date|research\w*)\b|搜索|搜一|检索|网上|上网|联网|新闻|最新|查一|查询|查找",
    "echarts": r"\b(?:charts?|graphs?|plots?|bars?|pie|histograms?)\b|图表|柱状|柱形|饼图|折线|曲线|条形图",
    "request": r"\b(?:https?|urls?|apis?|post(?:s|ed|ing)?|webhooks?|endpoints?|send\w*|fetch\w*|slack|teams|e-?mail (?:it|me|them)|server|website)\b|接口|请求|发送|推送|发到|发给|网址|链接|调用|抓取|网页",
    "http-request": r"\b(?:https?|urls?|apis?|fetch\w*|server|website)\b|接口|请求|网址|链接|调用|抓取|网页",
    "human-input": r"\b(?:approv\w*|confirm\w*|sign off|let (?:me|us|them)|ask (?:me|us|the)|humans?|person|people|manager|review(?:s|ed)? (?:it|them|by)|by hand|manual\w*|check it)\b"
    r"|批准|审批|确认|审核|人工|同意|问我|问一下|过目|把关|让我",
    "agent": r"\b(?:agents?|on its own|autonomous\w*)\b|智能体|代理|自主",
    "failure": r"\b(?:retr(?:y|ies|ied)|fail\w*|errors?|fall ?back|goes wrong|unavailable|timeouts?)\b|失败|重试|出错|错误|异常|超时|不可用",
}  # fmt: skip
"""Pattern of English and Chinese words of a request, by the node type or parameter that they suggest."""

_ALWAYS = ("tool", "knowledge-retrieval")
"""Types that are offered only if services are configured for them, and are then always described."""


def likely(text: str, names: Iterable[str]) -> list[str]:
    """Return the names of node types, or of parameters that all types have, that a text suggests.

        assert likely("Read it aloud if it is long.", ["tts", "if-else", "echarts"]) == ["tts", "if-else"]

    Args:
        text: The request.
        names: Names to choose from; their order is kept.
    """
    return [
        name for name in names if name in _ALWAYS or (name in WORDS and re.search(WORDS[name], text, re.IGNORECASE))
    ]
