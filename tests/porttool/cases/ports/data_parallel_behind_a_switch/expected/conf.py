from dataclasses import dataclass, field


@dataclass
class ParallelTrainerConfig:
    enabled: bool = False


@dataclass
class ParallelConfig:
    trainer: ParallelTrainerConfig = field(default_factory=ParallelTrainerConfig)


@dataclass
class Config:
    width: int = 8
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
