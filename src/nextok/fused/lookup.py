"""From token ids to the start of the residual stream, and back.

Axes: N = B T rows, D width, V vocabulary, P rows of the table of pairs.
"""

from typing import Any

import numba

from nextok.jit import compiled

_STRIPES = 4  # columns are shared out among threads, so that no two add to the same number


@compiled(parallel=True)
def look_up(ids_N: Any, T: Any, tokens_VD: Any, positions_TD: Any, pairs_PD: Any, x_ND: Any) -> None:
    """Writes token vectors, plus those of positions and of pairs where their tables are not empty."""
    N, D = x_ND.shape
    V, P = tokens_VD.shape[0], pairs_PD.shape[0]
    for n in numba.prange(N):
        t, x_D, token_D = n % T, x_ND[n], tokens_VD[ids_N[n]]
        for d in range(D):
            x_D[d] = token_D[d]
        if positions_TD.shape[0] > 0:
            position_D = positions_TD[t]
            for d in range(D):
                x_D[d] += position_D[d]
        if P > 0 and t > 0:
            pair_D = pairs_PD[(ids_N[n - 1] * V + ids_N[n]) % P]
            for d in range(D):
                x_D[d] += pair_D[d]


@compiled(parallel=True)
def look_up_backward(ids_N: Any, T: Any, d_x_ND: Any, d_tokens_VD: Any, d_positions_TD: Any, d_pairs_PD: Any) -> None:
    """Adds the gradients of the tables, row after row in each stripe of columns."""
    N, D = d_x_ND.shape
    V, P = d_tokens_VD.shape[0], d_pairs_PD.shape[0]
    for stripe in numba.prange(_STRIPES):
        first, stop = stripe * D // _STRIPES, (stripe + 1) * D // _STRIPES
        for n in range(N):
            t, d_x_D, d_token_D = n % T, d_x_ND[n], d_tokens_VD[ids_N[n]]
            for d in range(first, stop):
                d_token_D[d] += d_x_D[d]
            if d_positions_TD.shape[0] > 0:
                d_position_D = d_positions_TD[t]
                for d in range(first, stop):
                    d_position_D[d] += d_x_D[d]
            if P > 0 and t > 0:
                d_pair_D = d_pairs_PD[(ids_N[n - 1] * V + ids_N[n]) % P]
                for d in range(first, stop):
                    d_pair_D[d] += d_x_D[d]
