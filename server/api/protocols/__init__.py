"""Protocols of front ends and of other agents: AG-UI, the Vercel AI SDK, A2A."""
