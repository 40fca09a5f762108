"""Fit the reduction that ships with an embedded model, once, on general text.

    python tools/fit_reduction.py general/train.1.tsv.xz general/train.2.tsv.xz --pairs 24000

Takes pairs evenly spread over the files, force-decodes them, and writes
`src/nearmt/pretrained/NAME/reduction.safetensors`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nearmt.corpus import read_pairs
from nearmt.datastore.edit.encode import fitting_sample
from nearmt.models import EMBEDDED, ModelConfig, load_model
from nearmt.models.embedded import REDUCTION
from nearmt.reduction import Reduction


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", default="de-en", choices=sorted(EMBEDDED))
    parser.add_argument("--pairs", type=int, default=24_000)
    arguments = parser.parse_args()
    pairs = list(read_pairs(*arguments.files))
    chosen = pairs[:: max(1, len(pairs) // arguments.pairs)]
    model = load_model(ModelConfig(model=arguments.model, precision="fp32"))
    sample = fitting_sample(model, chosen)
    reduction = Reduction.fit(sample)
    _, covariance_HH = sample.moments()
    kept = float(reduction.variance_D.sum() / covariance_HH.diagonal().sum())
    reduction.save(EMBEDDED[arguments.model] / REDUCTION)
    share = f"{reduction.columns} columns keep {kept:.1%} of the variance of {sample.count} states"
    print(f"{share}; identity {reduction.identity}")


if __name__ == "__main__":
    main()
