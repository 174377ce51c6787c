"""Stop words: words without relation to the topic of a text."""

from __future__ import annotations

from functools import cache

from operad.runtime.values.words import words

_ENGLISH = """
a an the this that these those
i me my myself we our ours you your yours he him his she her hers it its itself they them their theirs
one someone somebody something anyone anybody anything
am is are was were be been being do does did doing done don have has had having t s d m ll ve
can cannot could will would shall should may might must
what which who whom whose when where why how whether
of in on at by for with about into to from as than then and or but if because so
not no also just only very too there here any some such other each every all many much more most
please kindly hi hello hey dear thank thanks tell explain give know want wants need needs like help let
wonder wondering ask asks asked asking question questions answer answers possible way
"""

_GERMAN = """
der die das des dem den ein eine einer eines einem einen kein keine keinen dieser diese dieses diesem diesen
ich mich mir mein meine meinen meiner meinem du dich dir dein deine er ihn ihm sein seine sie ihr ihre ihren ihrer ihnen
wir uns unser unsere es man jemand etwas sich
bist ist sind seid waren sei wird werden wurde habe haben hatte tun tut
kann kannst könnt können könnte könnten soll sollte sollen muss müssen darf dürfen will wollen möchte möchten würde
würden mag
wer wen wem wessen welche welcher welches welchen wann wo wohin woher warum wieso weshalb wie wieviel ob
und oder aber denn weil dass wenn als auf aus bei bis durch für gegen mit nach ohne über um unter von vom vor zu zum zur
im am beim ins nicht auch noch nur schon sehr sowie dann doch da hier dort alle jede jeder jedes mehr
bitte hallo danke dank sage sagen erkläre erklären gib geben wissen brauche hilf helfen frage fragen antwort
antworten
"""

_FRENCH = """
le la les un une des du de l d ce cet cette ces au aux
je j me m moi mon ma mes tu te t toi ton ta tes il elle on nous notre nos vous votre vos ils elles leur leurs se s
est sont était être suis êtes sommes sera soit avons avez ont avait avoir peux peut peuvent pouvez pourrais pourrait
pouvoir dois doit doivent faut veux veut voudrais voulez faire fais
que qu qui quoi quel quelle quels quelles quand où pourquoi combien
et ou mais donc ni ne n pas si dans en par pour avec sans sous sur vers chez y à aussi très comme
bonjour salut merci s'il plaît dire dites expliquer expliquez savoir besoin aide aider question réponse répondre
"""

_SPANISH = """
el los las unos unas uno una lo al del este esta estos estas ese esa eso
yo mi mis tú tu tus te él ella ello nosotros usted ustedes ellos ellas su sus se le les nos
es son era soy eres somos ser está están estoy estar ha han he hemos haber hay tengo tiene tener puedo puede pueden
podemos podría poder debo debe deben deber quiero quiere quisiera gustaría hacer hago
qué que quién quien quiénes cuál cual cuáles cuándo cuando dónde donde cómo como cuánto cuánta cuántos cuántas por
y o pero porque si ni de en con sin sobre para a desde hasta entre muy más también ya
hola buenos días gracias favor diga decir explicar explique saber necesito ayuda ayudar pregunta respuesta responder
"""

_CHINESE = """
什么 怎么 怎样 怎么样 怎么办 如何 为什么 为何 哪个 哪些 哪里 哪儿 哪种 谁 多少 几个 是否 是不是 有没有 能不能 可不可以 吗 呢
请问 请 您好 你好 谢谢 麻烦 我想 想知道 我想知道 我要 需要 可以 能够 应该 告诉 告诉我 帮我 帮忙 请告诉我 解释 回答
我 你 您 他 她 我们 你们 他们 这 那 这个 那个 这些 那些 的 了 是 在 有 和 与 或 也 都 就 把 被 对 从 到 但是 因为 所以 如果
"""
# Left out, because they are also topics of texts: ai, bin, car, comment, hat, main, plus, tag, todo, us, war; 说明, 问题.


@cache  # on first use: importing this must not compile the patterns of `words`
def stopwords() -> frozenset[str]:
    """Return articles, pronouns, auxiliaries, question words and words of request, in five languages.

    The languages are English, German, French, Spanish and Chinese. The words are as `words` returns them, so Chinese
    words are pairs of characters.

    >>> "the" in stopwords(), "index" in stopwords()
    (True, False)
    """
    return frozenset(words(" ".join((_ENGLISH, _GERMAN, _FRENCH, _SPANISH, _CHINESE))))
