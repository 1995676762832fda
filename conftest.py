"""What is not collected where optional packages are absent."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["src/hctrellis/torch.py"]
