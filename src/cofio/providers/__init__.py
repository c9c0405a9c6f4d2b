"""Adapters of model providers: HTTP, embedders, language models and their prompts."""
