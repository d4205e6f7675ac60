from dataclasses import dataclass


@dataclass
class Config:
    width: int = 8
