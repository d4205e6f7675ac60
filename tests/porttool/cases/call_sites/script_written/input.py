from pathlib import Path

Path("run.py").write_text("import torch\nf = torch.compile(torch.sin)\n")
