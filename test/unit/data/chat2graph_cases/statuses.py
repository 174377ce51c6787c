# pyright: reportMissingImports=false, reportOptionalSubscript=false, reportOptionalIterable=false
from app.core.common.type import WorkflowStatus


def run():
    return [status.name for status in WorkflowStatus]
