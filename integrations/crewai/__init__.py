"""CrewAI: its agents and tasks in YAML, which become a file of experts."""

from operad.operators.integration import Integration

INTEGRATION = Integration(name="crewai", experts={"crewai": "operad.integrations.crewai.crew:CREWAI"})
