"""Lost Cities for two players: the game, and Deep CFR on it."""

from coolrl_lost_cities.games.classic.kernel_cache import keep_kernels_by_source

keep_kernels_by_source()
