//! Edits and faults in any order.

use std::collections::BTreeMap;
use std::env;
use std::time::Duration;

use anyhow::{Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::api::ListParams;
use patchbay_harness::{ActiveFault, Fault, Filter, Refusal, wait_for};
use serde_json::{Value, json};

use crate::world::{World, applying, named};

/// Sources, of which each has a Script that copies it.
const SOURCES: usize = 8;
const STEPS: usize = 60;
const LABELS: [&str; 2] = ["a", "b"];
/// What was delayed again and again meanwhile may take a while.
const AFTERWARDS: Duration = Duration::from_secs(45);

/// Numbers that look random, the same for each seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % sides
    }
}

struct Storm {
    world: World,
    dice: Dice,
    /// Value and label of the sources that there are.
    sources: BTreeMap<String, (String, &'static str)>,
    round: String,
    faults: Vec<ActiveFault>,
}

impl Storm {
    fn name(&mut self) -> String {
        format!("source-{}", self.dice.roll(SOURCES))
    }

    async fn edit(&mut self, step: usize) -> Result<()> {
        let name = self.name();
        if self.dice.roll(4) == 0 {
            if self.sources.remove(&name).is_some() {
                self.world.delete_secret(&name).await?;
            }
            return Ok(());
        }
        let (value, label) = (format!("value {step}"), LABELS[self.dice.roll(LABELS.len())]);
        self.world.labelled_secret(&name, &value, json!({"app": label})).await?;
        self.sources.insert(name, (value, label));
        Ok(())
    }

    /// All Scripts, in a new version.
    async fn scripts(&mut self, step: usize) -> Result<()> {
        self.round = format!("since {step}");
        for number in 0..SOURCES {
            let name = format!("source-{number}");
            let data = json!({"k": format!("${{{name}:data.k}}"), "round": self.round});
            self.world
                .script(&name, applying(json!([named(&name)]), &name, data))
                .await?;
        }
        for label in LABELS {
            let query = json!({
                "id": "some", "apiVersion": "v1", "kind": "Secret", "selected": {"matchLabels": {"app": label}},
                "fields": {"paths": ["data.k"]},
            });
            let data = json!({"names": "${names:some}", "values": "${some:data.k}", "round": self.round});
            self.world.script(label, applying(json!([query]), label, data)).await?;
        }
        Ok(())
    }

    fn go_wrong(&mut self) {
        let proxy = &self.world.proxy;
        let answer = |refusal| Fault::Answer(refusal);
        let (watches, reads, writes) = (Filter::watches(), Filter::reads(), Filter::writes().of("configmaps"));
        let fault = match self.dice.roll(12) {
            0 => proxy.fault_times(2, watches, answer(Refusal::expired())),
            1 => proxy.fault_times(2, watches, Fault::ExpireStream),
            2 => proxy.fault_times(3, watches, answer(Refusal::unavailable())),
            3 => proxy.fault_times(2, Filter::any().of("secrets"), answer(Refusal::forbidden())),
            4 => proxy.fault_times(3, reads, answer(Refusal::internal_error())),
            5 => proxy.fault_times(4, writes, answer(Refusal::conflict())),
            6 => proxy.fault_times(4, writes, Fault::Lose(Refusal::internal_error())),
            7 => proxy.fault(reads, Fault::Hold),
            8 => proxy.fault(watches, Fault::Stall),
            9 => {
                proxy.cut(&watches);
                return;
            }
            10 => {
                proxy.end(&watches);
                return;
            }
            _ => {
                proxy.say(&watches, b"{\"type\":\"MODIFIED\",\"object\":{\"meta\n");
                return;
            }
        };
        self.faults.push(fault);
        self.world
            .proxy
            .cut(&Filter::watches().of(["secrets", "scripts", "configmaps"][self.dice.roll(3)]));
    }

    /// What the targets should hold.
    fn expected(&self) -> BTreeMap<String, Value> {
        let mut expected = BTreeMap::new();
        for number in 0..SOURCES {
            let name = format!("source-{number}");
            let value = self.sources.get(&name).map(|(value, _)| STANDARD.encode(value));
            let data = json!({"k": value.unwrap_or_default(), "round": self.round});
            expected.insert(name, data);
        }
        for label in LABELS {
            let found = || self.sources.iter().filter(|(_, (_, labelled))| *labelled == label);
            let names: Vec<_> = found().map(|(name, _)| name.as_str()).collect();
            let values: Vec<_> = found().map(|(_, (value, _))| STANDARD.encode(value)).collect();
            let data = json!({"names": names.join(","), "values": values.join(","), "round": self.round});
            expected.insert(label.to_owned(), data);
        }
        expected
    }

    async fn passes(&self) -> Result<()> {
        let maps = self.world.cluster.api("v1", "ConfigMap", &self.world.namespace).await?;
        let expected = self.expected();
        wait_for("all targets to be as they should be", AFTERWARDS, async || {
            let found = maps.list(&ListParams::default()).await?.items;
            let found: BTreeMap<_, _> = found
                .into_iter()
                .map(|map| (map.metadata.name.unwrap_or_default(), map.data["data"].clone()))
                .collect();
            for (name, expected) in &expected {
                if found.get(name) != Some(expected) {
                    let log = self.world.host.log_tail();
                    bail!(
                        "{name} holds {:?} and not {expected}; the end of the host's log:\n{log}",
                        found.get(name)
                    )
                }
            }
            Ok(Some(()))
        })
        .await
    }
}

#[tokio::test]
async fn whatever_goes_wrong_in_whatever_order_all_is_as_it_should_be_afterwards() -> Result<()> {
    let seed = env::var("PATCHBAY_STORM")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    let mut storm = Storm {
        world: World::new("storm").await?,
        dice: Dice(seed),
        sources: BTreeMap::new(),
        round: String::new(),
        faults: Vec::new(),
    };
    storm.scripts(0).await?;
    for step in 1..=STEPS {
        match storm.dice.roll(8) {
            0 => storm.scripts(step).await?,
            1..=4 => storm.edit(step).await?,
            5 | 6 => storm.go_wrong(),
            _ => drop(storm.faults.pop()),
        }
    }
    storm.faults.clear();
    storm
        .passes()
        .await
        .map_err(|error| error.context(format!("PATCHBAY_STORM={seed}")))
}
