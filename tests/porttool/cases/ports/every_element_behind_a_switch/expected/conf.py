from dataclasses import dataclass, field


@dataclass
class CompConfig:
    enabled: bool = False


@dataclass
class PerfConfig:
    comp: CompConfig = field(default_factory=CompConfig)


@dataclass
class Config:
    width: int = 8
    perf: PerfConfig = field(default_factory=PerfConfig)
