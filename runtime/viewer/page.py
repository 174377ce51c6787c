def page(title: str) -> str:
    return f"<!doctype html><title>{title}</title><script>fetch('data/picture')</script>"
