"""Chat completions with memory, in OpenAI's wire format."""
