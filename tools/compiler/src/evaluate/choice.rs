// SPDX-License-Identifier: MIT OR Apache-2.0

//! The choice among calibration methods, and between a network and its equalised form: the one whose worst output is nearest to the
//! best that any candidate has for this output. The mean over the outputs would be that of the noisiest one, which may be noise with
//! any method.

use std::borrow::Cow;
use std::sync::Mutex;

use rayon::prelude::*;

use super::judge::{Judge, Limit, Noise};
use crate::calibrate::{complete, Measured, Method};
use crate::ir::{Graph, Ranges};

/// The least ratio of noise to signal that counts, of both halves together: an output in steps of 8 bits has about 45 dB. Outputs with
/// less noise, such as the shares of a softmax that are 1 on all samples, show nothing.
const LEAST: f64 = 6e-5;

/// What the noise of an equalised network counts, at least, beside the noise of the model itself.
const EQUALISED_NOISE: f64 = 1.0 / 0.9;

/// What the noise of an equalised network counts if it was measured on that many values of an output. A smaller difference is within the
/// error of the measurement: the logarithm of the ratio of two sums of `values` squares has a standard deviation of 2 / sqrt(values),
/// and two of these are certain enough.
pub fn equalised_noise(values: usize) -> f64 {
    EQUALISED_NOISE.max((4.0 / (values.max(1) as f64).sqrt()).exp())
}

/// The network of a form.
pub enum Network<'a> {
    /// One for both halves.
    Same(&'a Graph),
    /// One for each half, which is made when it is compiled, so that the weights of both are not held at the same time.
    Own(&'a (dyn Fn(usize) -> Graph + Sync)),
}

/// A form of a network, measured on each half of the samples.
pub struct Form<'a> {
    /// What is told of it.
    pub name: &'a str,
    /// The network.
    pub network: Network<'a>,
    /// The values on the half of the samples that the other judge has not.
    pub halves: [&'a Measured; 2],
    /// Ranges that are known.
    pub given: &'a Ranges,
    /// What its noise is multiplied by: more than 1 for a form that is taken only if it is clearly better.
    pub handicap: f64,
}

/// The methods that are taken.
pub struct Choice {
    /// For the network itself.
    pub own: Method,
    /// For its equalised form, if that is taken.
    pub equalised: Option<Method>,
}

/// A candidate that was run.
struct Tried {
    form: usize,
    method: Method,
    noise: Noise,
}

/// How many times the noise of the best candidate a candidate has, at the output where it is most. `best` has the least noise of each
/// output.
fn regret(noise: &Noise, best: &Noise) -> f64 {
    noise.iter().zip(best).map(|(noise, least)| noise.max(LEAST) / least.max(LEAST)).fold(1.0, f64::max)
}

/// The least noise of each output.
fn best(tried: &[Tried]) -> Noise {
    let count = tried.first().map_or(0, |one| one.noise.len());
    (0..count).map(|at| tried.iter().map(|one| one.noise[at]).fold(f64::INFINITY, f64::min)).collect()
}

/// The candidate with the least regret. Among equal ones, the one with the least noise.
fn least(tried: &[Tried]) -> Option<&Tried> {
    let best = best(tried);
    let of = |one: &Tried| (regret(&one.noise, &best), one.noise.iter().sum::<f64>());
    let order = |a: &&Tried, b: &&Tried| {
        let (a, b) = (of(a), of(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    };
    tried.iter().min_by(order)
}

/// The choice among candidates, those of the network itself first. If none of these could be compiled, `otherwise` is taken for it.
fn chosen(tried: &[Tried], otherwise: Method) -> Choice {
    let own = &tried[..tried.iter().take_while(|one| one.form == 0).count()];
    Choice {
        own: least(own).map_or(otherwise, |one| one.method),
        equalised: least(tried).filter(|one| one.form > 0).map(|one| one.method),
    }
}

/// Chooses among the methods for a network and for its equalised form, which `forms` has in this order; the second may be missing. If no
/// candidate can be compiled, it is the first method for the network itself. `tell` is told the name of a form, and how many of its
/// candidates have been run.
pub fn choose(forms: &[Form<'_>], methods: &[Method], judges: &[Judge; 2], tell: &dyn Fn(&str, usize)) -> Choice {
    let mut tried: Vec<Tried> = Vec::new();
    for (number, form) in forms.iter().enumerate() {
        let mut noises = vec![[None, None]; methods.len()];
        let sums: Vec<Mutex<Noise>> = methods.iter().map(|_| Mutex::default()).collect();
        let rounds: &[&[usize]] = match form.network {
            Network::Same(_) => &[&[0, 1]],
            Network::Own(_) => &[&[0], &[1]],
        };
        let mut begun = 0;
        for &halves in rounds {
            let graph = match form.network {
                Network::Same(graph) => Cow::Borrowed(graph),
                Network::Own(make) => Cow::Owned(make(halves[0])),
            };
            let candidates: Vec<(usize, usize)> = (0..methods.len())
                .filter(|&method| halves[0] == 0 || noises[method][0].is_some())
                .flat_map(|method| halves.iter().map(move |&half| (method, half)))
                .collect();
            for two in candidates.chunks(2) {
                tell(form.name, begun / 2);
                begun += two.len();
                // What is worse at all outputs is best at none.
                let rivals: Vec<Noise> =
                    tried.iter().map(|rival| rival.noise.iter().map(|noise| noise / form.handicap).collect()).collect();
                let noise = |&(method, half): &(usize, usize)| {
                    let measured = form.halves[half].ranges(methods[method]);
                    let ranges = complete(&graph, form.given.clone(), Some(&measured));
                    judges[half].noise(&graph, &ranges, &Limit { rivals: &rivals, sum: &sums[method] })
                };
                let found: Vec<Option<Noise>> = two.par_iter().map(noise).collect();
                for (&(method, half), found) in two.iter().zip(found) {
                    noises[method][half] = found;
                    if let (1, [Some(one), Some(other)]) = (half, &noises[method]) {
                        let noise = one.iter().zip(other).map(|(a, b)| (a + b) * form.handicap).collect();
                        tried.push(Tried { form: number, method: methods[method], noise });
                    }
                }
            }
        }
    }
    chosen(&tried, methods[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(candidates: &[(Method, [f64; 3])]) -> Vec<Tried> {
        let of = |&(method, noise): &(Method, [f64; 3])| Tried { form: 0, method, noise: noise.to_vec() };
        candidates.iter().map(of).collect()
    }

    /// An output that is noise in any case does not decide, and neither does one without noise.
    #[test]
    fn the_worst_output_beside_its_best_decides() {
        let tried = tried(&[(Method::Max, [0.98, 0.01, 1e-6]), (Method::Mse, [1.0, 0.002, 1e-5])]);
        let mean = |one: &Tried| one.noise.iter().sum::<f64>();
        assert!(mean(&tried[0]) < mean(&tried[1]));
        assert_eq!(best(&tried), [0.98, 0.002, 1e-6]);
        assert_eq!(least(&tried).unwrap().method, Method::Mse);
        assert!(least(&[]).is_none());
    }

    /// The network itself keeps the method that is best for it, because its table of scales is written.
    #[test]
    fn an_equalised_form_has_a_method_of_its_own() {
        let candidates = [(0, Method::Max, 0.3), (0, Method::Mse, 0.2), (1, Method::Max, 0.1), (1, Method::Mse, 0.4)];
        let of = |(form, method, noise)| Tried { form, method, noise: vec![noise] };
        let tried: Vec<Tried> = candidates.map(of).into_iter().collect();
        let choice = chosen(&tried, Method::Entropy);
        assert_eq!((choice.own, choice.equalised), (Method::Mse, Some(Method::Max)));
        let choice = chosen(&tried[..2], Method::Entropy);
        assert_eq!((choice.own, choice.equalised), (Method::Mse, None));
        assert_eq!(chosen(&[], Method::Entropy).own, Method::Entropy);
    }

    /// One value per sample is not enough for a choice, a thousand are.
    #[test]
    fn few_values_decide_little() {
        assert!(equalised_noise(8) > 4.0 && equalised_noise(80) < 1.6);
        assert!(equalised_noise(8000) < 1.2);
    }

    /// With one output it is the least noise.
    #[test]
    fn one_output_has_its_best() {
        for noise in [[0.2, 0.1, 0.3], [2e-5, 1e-5, 3e-5]] {
            let candidates = [Method::Max, Method::Mse, Method::Entropy].into_iter().zip(noise);
            let of = |(method, noise)| Tried { form: 0, method, noise: vec![noise] };
            assert_eq!(least(&candidates.map(of).collect::<Vec<_>>()).unwrap().method, Method::Mse);
        }
    }
}
