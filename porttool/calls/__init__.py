"""Calls of torch.compile in working files: found, understood, put behind a switch that is off."""
