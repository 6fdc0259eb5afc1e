"""The hook in front of every tool call; hands it to the gate and does nothing else.

45: after the framework has put secrets into the arguments (10), before other plugins'
hooks (50 by convention), so that nothing they do is spent on a call that is refused.
"""

from typing import Any

from helpers.extension import Extension
from usr.plugins.agent_guild_preflight.helpers.gate import guard


class AgentGuildPreflight(Extension):
    async def execute(self, tool_name: str = "", **kwargs: Any) -> None:
        await guard(self.agent, tool_name)
