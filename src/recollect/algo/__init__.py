"""The mathematics of the learning methods: pure functions on tensors, nothing else.

No configuration objects, no logging, no device moves, no randomness. Every function states its
formula, its source and its shapes.

Layout, the same everywhere
    The trainer packs rows without padding, so tensors are flat. N counts tokens, R rows
    (trajectories in this step), and the shape stands in brackets:

    - `logprobs[N]`, `advantages[N]`, ...: one number per token;
    - `mask[N]`, bool: which tokens count. A token outside the mask has value 0 and gradient 0,
      whatever its other entries hold, NaN included;
    - `Rows(index[N], count)`: the row of each token, 0 <= index < R = count. Tokens of a row need
      not be neighbours; only `gae` reads their order;
    - `rewards[R]`, `groups[R]`: one entry per row. `rows.spread` takes [R] to [N].

    A padded `[B, T]` batch becomes this by `flatten()`, with `Rows` made of the row numbers
    repeated T times.

What carries gradient
    Only `logprobs` (and `values` in `values.value_loss`). Advantages, behaviour log-probs,
    reference log-probs and every importance weight are constants: the functions detach them.

Signs
    A *loss* is minimised, an *objective* maximised; `losses` return the former, `corrections` the
    latter. Both have the value (weight x advantage) per token, up to that sign, so that fresh and
    replayed parts of one batch can be compared and added. Score-function forms, published as
    sg(w) A log pi, are therefore written sg(w) A exp(log pi - sg(log pi)): the gradient is the
    same, and the value means something.

Empty sets
    A mean over nothing is 0.0, and so is the fraction.
    A group of one, or with equal rewards, has advantage 0 and is flagged. No function turns finite
    input into NaN. Non-finite log-probs of tokens that count are not hidden: they make the loss
    non-finite, and the trainer's guard skips the step.

Errors
    Wrong shapes, dtypes or parameters raise ValueError with names and values; nothing broadcasts.
"""
