"""A tool of local_tool.yml."""


class Height:
    """A tool as Chat2Graph makes them."""

    def __init__(self, id=None):
        self.name, self.description, self.function = "height", "Look the height of a plant up.", self.look_up

    async def look_up(self, plant: str) -> str:
        """Look the height up.

        Args:
            plant (str): The plant.
        """
        return f"{plant}: 7 m"
