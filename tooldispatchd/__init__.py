"""tooldispatchd: one daemon through which many LLM agents call their tools."""
