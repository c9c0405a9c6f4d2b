"""What is to become of a fact, given what is known: added, taking another's place, removing one, or noted as known.

`known` is for facts that somebody adds: new, or known already. `rules` and `model` are for facts that were read in a
conversation, which may also correct what is known: by what they say, or by the judgement of a language model.
"""
