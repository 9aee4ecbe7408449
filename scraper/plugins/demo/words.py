"""The sample shop's vocabulary: names and texts like those of real shops, with their traps."""

from __future__ import annotations

from random import Random

CATEGORIES = {
    "kitchen": "Kitchen & Table",
    "coffee": "Café, Thé & 抹茶",
    "garden": "Garten & Balkon",
    "tools": 'Werkzeug 1/2" – 3/4"',
    "books": "Books <used & new>",
    "bikes": "Fahrräder",
    "toys": "Juguetes para niños",
    "lamps": "Łazienka i lampy",
    "audio": "Audio & Hi‑Fi 🎧",
    "office": "Büro / Schreibwaren",
    "outdoor": "Outdoor’s best",
    "pets": "Товары для животных",
}

GOODS: list[tuple[str, dict[str, list[str]]]] = [
    (
        "kitchen",
        {
            "en": ['12" Pan', "Salt & Pepper Mill"],
            "de": ["Schöpflöffel", "Käsehobel"],
            "fr": ["Cocotte"],
        },
    ),
    (
        "coffee",
        {"en": ["Espresso Cup ☕"], "fr": ["Cafetière à piston", "Théière"], "ja": ["抹茶茶碗"]},
    ),
    (
        "garden",
        {
            "de": ["Gießkanne", "Gartenstühle (2er-Set)"],
            "fr": ["Sécateur"],
            "en": ["Bird's Nest Box"],
        },
    ),
    ("tools", {"de": ["Bohrmaschine", "Schlüsselsatz"], "en": ['Socket Set 1/2"', "Nuts & Bolts"]}),
    (
        "books",
        {
            "en": ["The <HTML> Handbook", "War & Peace"],
            "es": ["El ingenioso hidalgo"],
            "de": ["Über Bäume"],
        },
    ),
    (
        "bikes",
        {"de": ["Fahrradschloss", "Rücklicht"], "en": ["Child's Helmet"], "fr": ["Vélo pliant"]},
    ),
    (
        "toys",
        {"es": ["Muñeca", "Peluche de ñandú"], "en": ["Rock 'n' Roll Train"], "de": ["Bauklötze"]},
    ),
    ("lamps", {"pl": ["Żyrandol", "Lampa wisząca"], "en": ["Desk Lamp 💡"], "de": ["Glühbirne"]}),
    (
        "audio",
        {
            "en": ["Hi‑Fi Amplifier", "Drum & Bass Speaker"],
            "de": ["Kopfhörer"],
            "fr": ["Écouteurs"],
        },
    ),
    (
        "office",
        {"de": ["Büroklammern", "Füller"], "en": ["Post & Pen Set"], "fr": ["Taille-crayon"]},
    ),
    (
        "outdoor",
        {
            "en": ["Men's Jacket", "Tent 2–3 Persons ⛺"],
            "fr": ["Sac à dos"],
            "de": ["Wanderstöcke"],
        },
    ),
    (
        "pets",
        {"ru": ["Лежанка для кошки", "Корм"], "en": ["Dog & Cat Bowl 🐾"], "de": ["Kratzbäume"]},
    ),
]

ADJECTIVES = {
    "en": ["Small", "Hand-made", "All-weather", "Foldable", "Classic", '"Pro"'],
    "de": ["Schöne", "Große", "Weiße", "Öko-", "Süße", "Hübsche"],
    "fr": ["Belle", "Élégante", "Petite", "L’authentique"],
    "es": ["Pequeño", "Clásico", "Año Nuevo:"],
    "pl": ["Piękna", "Żółta", "Mała"],
    "ru": ["Большая", "Красная"],
    "ja": ["伝統的な", "小さな"],
}

BRANDS = [
    "Müller & Söhne",
    "O'Neill",
    "Café Noir",
    "Łucja",
    "AT&T-Shirts",
    "Smith & Wesley",
    "Señor Pérez",
    "Nørdik",
    "B<R>AND",
    'The "Quoted" Co.',
    "無印",
    "Acme",
]

COLOURS = ["red", "blue", "grün", "noir", "żółty", "100 % white", "silver/gold"]

SENTENCES = {
    "en": ["It lasts for years & years.", "Wash at < 30 °C.", 'Our customers call it "the one".'],
    "de": ["Hält jahrelang, größtenteils.", "Für drinnen & draußen.", "Maße: 20 × 30 cm."],
    "fr": ["Fabriqué à l’étranger.", "Idéal pour l’été & l’hiver.", "« Très pratique »"],
    "es": ["¡Qué bonito!", "Hecho con cariño & algodón."],
    "pl": ["Wykonane ręcznie.", "Źródło światła w zestawie."],
    "ru": ["Сделано вручную.", "Подходит для дома & дачи."],
    "ja": ["日本製です。", "丁寧に作られています。"],
}


def compose_name(rng: Random, language: str, adjective: str, noun: str, brand: str) -> str:
    """Returns a product's name, sometimes with its brand, a colour or a size."""
    name = adjective + noun.lower() if adjective.endswith("-") else f"{adjective} {noun}"
    if rng.random() < 0.4:
        name = f"{brand} {name}"
    if rng.random() < 0.5:
        name += f", {rng.choice(COLOURS)}"
    if rng.random() < 0.3:
        name += f" ({rng.randrange(2, 60)} cm)"
    return name


def write_description(rng: Random, language: str, noun: str, brand: str) -> str:
    """Returns a paragraph of about 300 characters on one line."""
    sentences = SENTENCES[language] + SENTENCES["en"]
    chosen = [rng.choice(sentences) for _ in range(9)]
    return f"{noun} – {brand}: " + " ".join(chosen)
