//! What is said of those who undo a run's writes.

use std::collections::BTreeMap;
use std::time::Duration;

use patchbay_cluster::Contested;
use patchbay_core::ObjectKey;

/// How a run was slowed down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slowdown {
    pub(crate) delay: Duration,
    /// The primaries that wake each other, by their kinds and names, if they do.
    pub(crate) circle: Vec<String>,
}

/// Objects with the fields that were not as desired.
pub(crate) type Fields = [(ObjectKey, Vec<Contested>)];

/// What of a kind is told in one message.
const MOST: usize = 3;

impl Slowdown {
    /// What goes on, and what is to be done about it. The first part is the same as long as the same goes on. None if there is nobody
    /// to name.
    pub(crate) fn words(&self, fields: &Fields, own_manager: &str) -> Option<(String, String)> {
        let delay = seconds(self.delay);
        let fight = match &*self.circle {
            // Whoever is woken by itself may be so since somebody else sets back what it wrote.
            [] | [_] => fight(fields, own_manager),
            primaries => mutual_fight(primaries, fields, own_manager),
        };
        if let Some(what) = fight {
            let advice = format!("writes are slowed to one in {delay}: take the field out of one of them");
            return Some((what, advice));
        }
        if self.circle.is_empty() {
            return None;
        }
        let advice = format!("runs are slowed to one in {delay}: let one of them not follow what another one writes");
        Some((circle(&self.circle, fields), advice))
    }
}

/// Who sets fields of which objects back. What only the run's own manager owns was not set back: it is new.
fn fight(fields: &Fields, own_manager: &str) -> Option<String> {
    let mut sentences = Vec::new();
    for (object, contested) in fields {
        let mut by_managers: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
        for Contested { path, managers } in contested {
            let others: Vec<&str> = managers
                .iter()
                .map(String::as_str)
                .filter(|name| *name != own_manager)
                .collect();
            if managers.is_empty() || !others.is_empty() {
                by_managers.entry(others).or_default().push(path);
            }
        }
        for (managers, paths) in by_managers {
            let (field, is) = if paths.len() == 1 {
                ("field", "is")
            } else {
                ("fields", "are")
            };
            let paths = listed(&paths);
            let how = match managers.as_slice() {
                [] => "taken out each time, by whom it does not say".to_owned(),
                [manager] => format!("set back by manager {manager} each time"),
                managers => format!("set back by managers {} each time", listed(managers)),
            };
            sentences.push(format!("{}: {field} {paths} {is} {how}", named(object)));
        }
    }
    (!sentences.is_empty()).then(|| few(&sentences).join("; "))
}

/// Which primaries set back each other's fields. None if they only follow each other.
fn mutual_fight(primaries: &[String], fields: &Fields, own_manager: &str) -> Option<String> {
    let mut contested = fields.iter().flat_map(|(_, contested)| contested);
    let fight = contested.any(|contested| contested.managers.iter().any(|name| name != own_manager));
    fight.then(|| {
        let (primaries, places) = (all(primaries), places(fields));
        format!("{primaries} set back each other's {}", few(&places).join(" and "))
    })
}

/// Which primaries wake each other, and which fields go round.
fn circle(primaries: &[String], fields: &Fields) -> String {
    let who = match primaries {
        [alone] => format!("{alone} wakes itself in a circle"),
        several => format!("{} wake each other in a circle", all(several)),
    };
    let places = places(fields);
    if places.is_empty() {
        return who;
    }
    format!("{who}, by {}", few(&places).join(" and "))
}

fn all(primaries: &[String]) -> String {
    let primaries: Vec<&str> = primaries.iter().map(String::as_str).collect();
    listed(&primaries)
}

/// Fields with their objects.
fn places(fields: &Fields) -> Vec<String> {
    let contested = fields.iter().filter(|(_, contested)| !contested.is_empty());
    let places = contested.map(|(object, contested)| {
        let paths: Vec<&str> = contested.iter().map(|contested| &*contested.path).collect();
        format!("{} of {}", listed(&paths), named(object))
    });
    places.collect()
}

fn named(object: &ObjectKey) -> String {
    format!("{} {}", object.kind.kind, object.name)
}

fn few(texts: &[String]) -> &[String] {
    &texts[..texts.len().min(MOST)]
}

/// The first of several names, and how many more there are.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        _ if names.len() > MOST => format!("{} and {} more", names[..MOST].join(", "), names.len() - MOST),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn seconds(delay: Duration) -> String {
    match delay.as_secs_f64() {
        less if less < 1.0 => format!("{} ms", delay.as_millis()),
        more => format!("{more:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{ClusterId, Kind, ObjectName};

    use super::*;

    fn fields(contested: &[(&str, &[&str])]) -> Vec<(ObjectKey, Vec<Contested>)> {
        let object = ObjectKey {
            cluster: ClusterId::HOST,
            kind: Kind::new("v1", "ConfigMap"),
            name: ObjectName::new(Some("team"), "app"),
        };
        let contested = contested.iter().map(|(path, managers)| Contested {
            path: (*path).to_owned(),
            managers: managers.iter().map(ToString::to_string).collect(),
        });
        vec![(object, contested.collect())]
    }

    fn slowed(circle: &[&str]) -> Slowdown {
        Slowdown {
            delay: Duration::from_millis(7900),
            circle: circle.iter().map(ToString::to_string).collect(),
        }
    }

    fn said(circle: &[&str], contested: &[(&str, &[&str])]) -> Option<String> {
        let words = slowed(circle).words(&fields(contested), "me");
        words.map(|(what, advice)| format!("{what}; {advice}"))
    }

    #[test]
    fn who_sets_a_field_back_is_named_with_the_field() {
        assert_eq!(
            said(&[], &[("data.k", &["other-controller"])]).expect("somebody"),
            "ConfigMap team/app: field data.k is set back by manager other-controller each time; writes are slowed to one in 8 \
             s: take the field out of one of them"
        );
        let what = slowed(&[]).words(
            &fields(&[
                ("a", &["x"]),
                ("b", &["me", "x"]),
                ("c", &[]),
                ("d", &["x", "y"]),
                ("e", &["me"]),
            ]),
            "me",
        );
        assert_eq!(
            what.expect("somebody").0,
            "ConfigMap team/app: field c is taken out each time, by whom it does not say; ConfigMap team/app: fields a and b \
             are set back by manager x each time; ConfigMap team/app: field d is set back by managers x and y each time"
        );
    }

    #[test]
    fn what_is_new_is_nobodys_fault() {
        assert_eq!(said(&[], &[("data.k", &["me"])]), None);
        assert_eq!(said(&[], &[]), None);
    }

    #[test]
    fn primaries_in_a_circle_are_named_with_what_goes_round() {
        assert_eq!(
            said(&["Object a", "Object b"], &[("data.n", &["me"])]).expect("a circle"),
            "Object a and Object b wake each other in a circle, by data.n of ConfigMap team/app; runs are slowed to one in 8 s: let \
             one of them not follow what another one writes"
        );
        assert!(
            said(&["Object a"], &[])
                .expect("a circle")
                .starts_with("Object a wakes itself in a circle; ")
        );
        assert_eq!(
            said(&["Object a", "Object b"], &[("data.n", &["other"])]).expect("a fight"),
            "Object a and Object b set back each other's data.n of ConfigMap team/app; writes are slowed to one in 8 s: take the \
             field out of one of them"
        );
        assert!(
            said(&["Object a"], &[("data.n", &["other"])])
                .expect("a fight")
                .contains("set back by manager other")
        );
        let many = ["a", "b", "c", "d", "e"];
        assert!(
            said(&many, &[])
                .expect("a circle")
                .starts_with("a, b, c and 2 more wake each other")
        );
    }
}
