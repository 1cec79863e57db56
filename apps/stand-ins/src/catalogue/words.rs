//! The words that invented books are made of, with their readings. Any combination makes a title.

/// How a place is: its text and its reading.
pub(super) const TRAITS: &[(&str, &str)] = &[
    ("静かな", "シズカナ"),
    ("遠い", "トオイ"),
    ("雨の日の", "アメ ノ ヒ ノ"),
    ("忘れられた", "ワスレラレタ"),
    ("九番目の", "キュウバンメ ノ"),
    ("夜明け前の", "ヨアケマエ ノ"),
    ("冬の", "フユ ノ"),
    ("坂の上の", "サカ ノ ウエ ノ"),
    ("名もない", "ナ モ ナイ"),
    ("海の見える", "ウミ ノ ミエル"),
];

/// Where something is.
pub(super) const PLACES: &[(&str, &str)] = &[
    ("灯台", "トウダイ"),
    ("駅", "エキ"),
    ("図書館", "トショカン"),
    ("港", "ミナト"),
    ("植物園", "ショクブツエン"),
    ("天文台", "テンモンダイ"),
    ("郵便局", "ユウビンキョク"),
    ("峠", "トウゲ"),
    ("運河", "ウンガ"),
    ("温室", "オンシツ"),
    ("測候所", "ソッコウジョ"),
    ("屋上", "オクジョウ"),
];

/// What it is about.
pub(super) const THINGS: &[(&str, &str)] = &[
    ("地図", "チズ"),
    ("時刻表", "ジコクヒョウ"),
    ("手紙", "テガミ"),
    ("数学", "スウガク"),
    ("日誌", "ニッシ"),
    ("鍵", "カギ"),
    ("歴史", "レキシ"),
    ("台所", "ダイドコロ"),
    ("鳥たち", "トリタチ"),
    ("設計図", "セッケイズ"),
    ("約束", "ヤクソク"),
    ("歩き方", "アルキカタ"),
];

/// Family and given names.
pub(super) const NAMES: &[(&str, &str)] = &[
    ("潮田", "みずほ"),
    ("灰原", "透"),
    ("遠見", "かなえ"),
    ("雁屋", "聡"),
    ("白瀬", "ゆうこ"),
    ("小暮", "直"),
    ("鳴海", "はるか"),
    ("入江", "誠司"),
    ("桐生", "まどか"),
    ("早瀬", "健"),
];

/// Houses that print them.
pub(super) const PUBLISHERS: &[&str] =
    &["灯台書房", "北窓出版", "浮舟社", "七草館", "風待堂", "みなとまち新書", "零点舎"];

/// Series that some belong to.
pub(super) const SERIES: &[&str] = &["灯台文庫", "北窓選書", "風待ちの本棚", "零点科学叢書"];

/// Classes of the Nippon Decimal Classification.
pub(super) const GENRES: &[&str] = &["913.6", "410", "290.9", "488", "596", "686", "007.6", "726.6", "440"];
