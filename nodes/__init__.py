"""The graph's steps: node functions ``(state, runtime) -> partial update`` and the engines that fill the roles."""
