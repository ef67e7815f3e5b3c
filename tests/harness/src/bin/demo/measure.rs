//! Changes sources one after the other, and measures when the copies have followed.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use patchbay_fieldpath::FieldPath;
use patchbay_harness::{Cluster, Host};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::arrivals::Arrivals;
use crate::examples::{NAMESPACE, Place, Route};
use crate::progress::Progress;

/// How long one change may take to arrive.
const LIMIT: Duration = Duration::from_secs(10);

/// After so many changes that did not arrive, the rest is not tried.
const PATIENCE: usize = 5;

/// Between two measurements, so that what follows a change, such as a status, does not disturb the next one.
const PAUSE: Duration = Duration::from_millis(50);

/// Changes of each source that are not measured: connections open, caches fill.
const WARM_UP: u32 = 2;

/// The field manager of the changes.
const MANAGER: &str = "demo";

/// What was measured.
pub struct Measurement {
    /// How many changes were asked for.
    pub changes: u32,
    /// From the start of a write to the event of what a bare client applied.
    pub floor: Vec<Duration>,
    /// From the start of a write to the event of what patchbay applied.
    pub patchbay: Vec<Duration>,
    /// A line for each change that did not arrive.
    pub missing: Vec<String>,
}

/// Makes the changes, alternating between the sources. Before each, the bare client's way is measured once.
pub async fn run(cluster: &Cluster, host: &mut Host, routes: &[Route], changes: u32) -> Result<Measurement> {
    let floor = Floor::prepare(cluster).await?;
    let writers = writers(cluster, routes).await?;
    let targets = routes
        .iter()
        .map(|route| &route.target)
        .chain([&floor.source, &floor.target]);
    let arrivals = Arrivals::watch(cluster, targets).await?;
    let mut measurement = Measurement {
        changes,
        floor: Vec::new(),
        patchbay: Vec::new(),
        missing: Vec::new(),
    };

    let progress = Progress::begin("warming up");
    for round in 0..WARM_UP {
        for (route, writer) in routes.iter().zip(&writers) {
            floor
                .measure(&arrivals, &format!("warm-up-{}-{round}", route.object))
                .await?;
            let value = value_for(route, &format!("warm-up-{round}"));
            if change(writer, &arrivals, route, value).await?.is_none() {
                bail!(
                    "{}; the end of the host's log:\n{}",
                    did_not_arrive(route),
                    host.log_tail()
                );
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    progress.end();

    let progress = Progress::begin_counting("changes", changes.into());
    for (number, (route, writer)) in (1..=changes).zip(routes.iter().zip(&writers).cycle()) {
        if host.has_ended() {
            bail!("the host has ended by itself; the end of its log:\n{}", host.log_tail());
        }
        measurement
            .floor
            .push(floor.measure(&arrivals, &format!("change-{number}")).await?);
        tokio::time::sleep(PAUSE).await;
        match change(writer, &arrivals, route, value_for(route, &format!("change-{number}"))).await? {
            Some(taken) => measurement.patchbay.push(taken),
            None => {
                let (source, target) = (&route.source, &route.target);
                let seconds = LIMIT.as_secs();
                measurement.missing.push(format!(
                    "change {number}: {source} did not reach {target} in {seconds} s"
                ));
            }
        }
        if measurement.missing.len() == PATIENCE {
            measurement
                .missing
                .push(format!("given up after change {number} of {changes}"));
            break;
        }
        progress.count();
        tokio::time::sleep(PAUSE).await;
    }
    progress.end();
    Ok(measurement)
}

fn did_not_arrive(Route { source, target, .. }: &Route) -> String {
    format!("the change of {source} did not reach {target} in {} s", LIMIT.as_secs())
}

/// Access to each route's source, looked up before anything is measured.
async fn writers(cluster: &Cluster, routes: &[Route]) -> Result<Vec<Api<DynamicObject>>> {
    let mut writers = Vec::new();
    for Route { source, .. } in routes {
        writers.push(
            cluster
                .api(&source.api_version, &source.kind, &source.namespace)
                .await?,
        );
    }
    Ok(writers)
}

/// The text as the source holds it; Secrets hold base64.
fn value_for(route: &Route, text: &str) -> Value {
    match route.source.kind.as_str() {
        "Secret" => json!(BASE64_STANDARD.encode(text)),
        _ => json!(text),
    }
}

/// Changes a source, and gives the time until the target has it, or nothing if it never had.
async fn change(
    writer: &Api<DynamicObject>,
    arrivals: &Arrivals,
    route: &Route,
    value: Value,
) -> Result<Option<Duration>> {
    let mut patch = json!({});
    route.source.path.set(&mut patch, value.clone())?;
    let arrival = arrivals.expect(&route.target, value);
    let begin = Instant::now();
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(patch);
    let write = writer.patch(&route.source.name, &params, &patch);
    let (written, arrived) = tokio::join!(write, timeout(LIMIT, arrival));
    written.with_context(|| format!("cannot change {}", route.source))?;
    Ok(arrived.ok().and_then(Result::ok).map(|arrived| arrived - begin))
}

/// The way of a bare client.
struct Floor {
    maps: Api<DynamicObject>,
    source: Place,
    target: Place,
}

impl Floor {
    async fn prepare(cluster: &Cluster) -> Result<Self> {
        let place = |name: &str| -> Result<Place> {
            Ok(Place {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                namespace: NAMESPACE.to_owned(),
                name: name.to_owned(),
                path: FieldPath::parse("data.value")?,
            })
        };
        let (source, target) = (place("bare-client-source")?, place("bare-client-target")?);
        cluster
            .apply_in(
                NAMESPACE,
                "{apiVersion: v1, kind: ConfigMap, metadata: {name: bare-client-source}}",
            )
            .await?;
        Ok(Self {
            maps: cluster.api("v1", "ConfigMap", NAMESPACE).await?,
            source,
            target,
        })
    }

    /// Writes the source, waits for its event, applies the target, and waits for that event.
    async fn measure(&self, arrivals: &Arrivals, value: &str) -> Result<Duration> {
        let (source, target) = (
            arrivals.expect(&self.source, json!(value)),
            arrivals.expect(&self.target, json!(value)),
        );
        let begin = Instant::now();
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({"data": {"value": value}}));
        let (written, seen) = tokio::join!(
            self.maps.patch(&self.source.name, &params, &patch),
            timeout(LIMIT, source)
        );
        written.context("the bare client cannot write")?;
        seen.context("the bare client sees no event")??;
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.target.name}, "data": {"value": value},
        });
        let (params, patch) = (PatchParams::apply(MANAGER).force(), Patch::Apply(object));
        let (applied, seen) = tokio::join!(
            self.maps.patch(&self.target.name, &params, &patch),
            timeout(LIMIT, target)
        );
        applied.context("the bare client cannot apply")?;
        Ok(seen.context("the bare client sees no event of what it applied")?? - begin)
    }
}
