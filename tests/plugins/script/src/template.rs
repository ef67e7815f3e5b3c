//! Texts that hold parts of answers.
//!
//! | in a text | becomes |
//! | --- | --- |
//! | `${id:path}` | a field of what the query `id` found; of several objects, all of them, with commas |
//! | `${self:path}` | a field of the Script itself |
//! | `${state:id}` | `found`, `missing` or `failed` with the reason, such as `failed Forbidden` |
//! | `${count:id}` | how many objects it found |
//! | `${names:id}` | their names, with commas |
//! | `${cluster:id}` | the id of the cluster of the first of them |
//!
//! A text that is nothing but one field takes the field's type. What was not found is empty. A field of a query that
//! failed is a failure: it is not known to be empty.

use patchbay_sdk::fieldpath::FieldPath;
use patchbay_sdk::{Answers, Failure, Finding, Object, Primary, QueryFailureReason, Value};

/// What becomes of a field that is not there.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Absent {
    /// An empty text.
    Empty,
    /// A failure that may pass.
    Refuse,
}

/// What templates are filled in with.
#[derive(Clone, Copy)]
pub(crate) struct Template<'a> {
    pub(crate) primary: &'a Primary,
    pub(crate) answers: &'a Answers,
}

impl Template<'_> {
    /// The value with all texts in it filled in.
    ///
    /// # Errors
    /// A query that failed or was not asked, a path that is none; what is not there, if that is refused.
    pub(crate) fn fill(&self, value: &Value, absent: Absent) -> Result<Value, Failure> {
        Ok(match value {
            Value::String(text) => self.text(text, absent)?,
            Value::Array(items) => items
                .iter()
                .map(|item| self.fill(item, absent))
                .collect::<Result<_, _>>()?,
            Value::Object(fields) => {
                let filled = fields
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.fill(value, absent)?)));
                filled.collect::<Result<_, Failure>>()?
            }
            other => other.clone(),
        })
    }

    fn text(&self, text: &str, absent: Absent) -> Result<Value, Failure> {
        if let Some(inner) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
            && !inner.contains("${")
        {
            return self.part(inner, absent);
        }
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, begun)) = rest.split_once("${") {
            let Some((inner, after)) = begun.split_once('}') else {
                break;
            };
            filled.push_str(before);
            filled.push_str(&plain(&self.part(inner, absent)?));
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled.into())
    }

    fn part(&self, part: &str, absent: Absent) -> Result<Value, Failure> {
        let (what, of) = part
            .split_once(':')
            .ok_or_else(|| Failure::permanent("InvalidScript", format!("`${{{part}}}` has no colon")))?;
        Ok(match what {
            "self" => field(&self.primary.object, of, absent)?,
            "state" => state(self.finding(of)?).into(),
            "count" => objects(self.finding(of)?).len().to_string().into(),
            "names" => joined(objects(self.finding(of)?).iter().map(Object::name)).into(),
            "cluster" => objects(self.finding(of)?)
                .first()
                .map_or("", |object| &object.cluster_id)
                .into(),
            id => match self.finding(id)? {
                Finding::Failed(failure) => return Err(failure.into()),
                Finding::Matches(objects) => {
                    let fields = objects
                        .iter()
                        .map(|object| Ok(plain(&field(object, of, Absent::Empty)?)));
                    joined(fields.collect::<Result<Vec<_>, Failure>>()?).into()
                }
                found => match objects(found).first() {
                    Some(object) => field(object, of, absent)?,
                    None if absent == Absent::Empty => "".into(),
                    None => return Err(Failure::retry("NotFound", format!("query `{id}` found nothing"))),
                },
            },
        })
    }

    fn finding(&self, id: &str) -> Result<&Finding, Failure> {
        let problem = || Failure::permanent("InvalidScript", format!("query `{id}` is not asked before it is used"));
        self.answers.finding(id).ok_or_else(problem)
    }
}

/// What a query came to, in one or two words.
pub(crate) fn state(finding: &Finding) -> String {
    let reason = match finding {
        Finding::Found(_) | Finding::Matches(_) | Finding::Files(_) => return "found".to_owned(),
        Finding::Missing => return "missing".to_owned(),
        Finding::Failed(failure) => match failure.reason {
            QueryFailureReason::NoSuchKind => "NoSuchKind",
            QueryFailureReason::Forbidden => "Forbidden",
            QueryFailureReason::NotGranted => "NotGranted",
            QueryFailureReason::Unreachable => "Unreachable",
            QueryFailureReason::Invalid => "Invalid",
            QueryFailureReason::Unsupported => "Unsupported",
            QueryFailureReason::TooLarge => "TooLarge",
        },
    };
    format!("failed {reason}")
}

/// The objects that a query found.
pub(crate) fn objects(finding: &Finding) -> &[Object] {
    match finding {
        Finding::Found(object) => std::slice::from_ref(object),
        Finding::Matches(objects) => objects,
        Finding::Missing | Finding::Files(_) | Finding::Failed(_) => &[],
    }
}

fn field(object: &Object, path: &str, absent: Absent) -> Result<Value, Failure> {
    match (FieldPath::parse(path)?.get(&object.value), absent) {
        (Ok(value), _) => Ok(value.clone()),
        (Err(_), Absent::Empty) => Ok("".into()),
        (Err(error), Absent::Refuse) => Err(error.into()),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn joined(texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let texts: Vec<_> = texts.into_iter().map(|text| text.as_ref().to_owned()).collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::{json, testing};

    fn fill(value: Value, absent: Absent) -> Result<Value, Failure> {
        let primary = testing::primary(json!({"metadata": {"name": "s"}}));
        let object = |name: &str| json!({"metadata": {"name": name}, "data": {"k": name}});
        let answers = testing::answers([
            (
                "one",
                testing::found(json!({"metadata": {"name": "o"}, "n": 3, "data": {"k": "v"}})),
            ),
            ("none", testing::missing()),
            ("many", testing::matches([object("a"), object("b")])),
            ("bad", testing::failed(QueryFailureReason::Forbidden, "no")),
        ]);
        Template {
            primary: &primary,
            answers: &answers,
        }
        .fill(&value, absent)
    }

    #[test]
    fn texts_are_filled_in() {
        for (text, expected) in [
            ("${one:data.k}", json!("v")),
            ("${one:n}", json!(3)),
            ("${one:data}", json!({"k": "v"})),
            ("<${one:data.k}|${one:n}>", json!("<v|3>")),
            ("${self:metadata.name}-x", json!("s-x")),
            ("${none:data.k}", json!("")),
            ("${one:data.absent}", json!("")),
            ("${many:data.k}", json!("a,b")),
            ("${names:many} ${count:many}", json!("a,b 2")),
            ("${count:none}", json!("0")),
            ("${cluster:one}", json!(testing::CLUSTER_ID)),
            (
                "${state:one} ${state:none} ${state:bad}",
                json!("found missing failed Forbidden"),
            ),
            ("no ${end", json!("no ${end")),
        ] {
            assert_eq!(
                fill(json!([{"t": text}]), Absent::Empty).unwrap(),
                json!([{"t": expected}]),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_known_is_not_empty() {
        assert_eq!(
            fill(json!("${bad:data.k}"), Absent::Empty).unwrap_err().reason,
            "Forbidden"
        );
        assert!(fill(json!("${unasked:data.k}"), Absent::Empty).unwrap_err().permanent);
        assert!(!fill(json!("${none:data.k}"), Absent::Refuse).unwrap_err().permanent);
        assert!(!fill(json!("${one:data.absent}"), Absent::Refuse).unwrap_err().permanent);
    }
}
