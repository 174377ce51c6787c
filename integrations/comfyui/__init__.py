"""ComfyUI: its workflows as files and as code, runs on its servers, generation, and the scores of ComfyFlow."""

from operad.operators.integration import Integration

INTEGRATION = Integration(
    name="comfyui",
    node_types={"comfyui": "operad.integrations.comfyui.node:ComfyUINode"},
    capabilities={"comfyui": "operad.integrations.comfyui.capabilities:CAPABILITIES"},
    formats={
        "comfyui": "operad.integrations.comfyui.formats:COMFYUI",
        "comfyui-api": "operad.integrations.comfyui.formats:COMFYUI_API",
        "comfyui-code": "operad.integrations.comfyui.formats:COMFYUI_CODE",
        "comfyui-picture": "operad.integrations.comfyui.formats:COMFYUI_PICTURE",
    },
    commands={"comfy": "operad.integrations.comfyui.comfyflow.command:comfy"},
    rehearsed={"comfyui": "operad.integrations.comfyui.capabilities:made_up"},
)
