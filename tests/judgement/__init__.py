"""Tests of the judgement model: encoding, spans, files, loading."""
