//! The kind that a misspelt word may mean.

use patchbay_core::Kind;

/// The kind that is nearest to what was asked, if one is near.
pub(super) fn nearest<'k>(kinds: impl Iterator<Item = &'k Kind>, asked: &str) -> Option<&'k Kind> {
    let asked = asked.to_lowercase();
    let word = asked.split('.').next().unwrap_or_default();
    let near = word.chars().count() / 3;
    kinds
        .map(|kind| {
            let singular = kind.kind.to_lowercase();
            (
                distance(word, &singular).min(distance(word, &format!("{singular}s"))),
                kind,
            )
        })
        .filter(|(distance, _)| *distance <= near)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, kind)| kind)
}

/// How many letters must be put in, taken out, changed or swapped with the next to make one word of another.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let mut least = (rows[i][j] + usize::from(a != b))
                .min(rows[i][j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_kind_is_meant() {
        let kinds = ["Deployment", "Ingress", "Secret"].map(|kind| Kind::new("v1", kind));
        for (asked, meant) in [
            ("secerts", Some("Secret")),
            ("deplyoment.apps", Some("Deployment")),
            ("ingres", Some("Ingress")),
            ("pod", None),
            ("", None),
        ] {
            assert_eq!(nearest(kinds.iter(), asked).map(|kind| &*kind.kind), meant, "{asked}");
        }
    }
}
