// SPDX-License-Identifier: MIT OR Apache-2.0

//! Variables, in which a network that listens to a stream keeps states between runs. Each becomes an input, which has its value before a
//! run, and an output, which has its value afterwards: NVDLA has no memory of its own.

use std::collections::HashMap;

use super::file::File;

/// The slot of a variable's name in the options of VAR_HANDLE.
const SHARED_NAME: usize = 1;

/// A variable's value at a place in the order of execution.
#[derive(Default)]
struct Variable {
    name: String,
    /// The tensor that has it, once an operator reads or assigns it.
    now: Option<usize>,
    assigned: bool,
}

/// Makes inputs and outputs of a file's variables. What fills them before the first run, as CALL_ONCE does, is left to the user.
///
/// # Errors
///
/// If an operator of variables is malformed.
pub(super) fn beside(file: &mut File<'_>) -> Result<(), String> {
    let mut variables: Vec<Variable> = Vec::new();
    // The variable of each handle, and the tensor that has the value that an operator reads.
    let (mut handles, mut same) = (HashMap::new(), HashMap::new());
    let mut states = Vec::new();
    for operator in &mut file.operators {
        for input in operator.inputs.iter_mut().flatten() {
            *input = same.get(input).copied().unwrap_or(*input);
        }
        let variable = |at: usize| {
            let handle = operator.inputs.get(at).copied().flatten();
            let found = handle.and_then(|handle| handles.get(&handle).copied());
            found.ok_or_else(|| format!("{} has no variable", operator.name))
        };
        match (operator.name.as_str(), &operator.inputs[..], &operator.outputs[..]) {
            ("VAR_HANDLE", [], &[handle]) => {
                let name = operator.text(SHARED_NAME)?;
                let at = variables.iter().position(|known| known.name == name).unwrap_or(variables.len());
                if at == variables.len() {
                    variables.push(Variable { name, ..Variable::default() });
                }
                handles.insert(handle, at);
            }
            ("READ_VARIABLE", [_], &[output]) => {
                let variable = &mut variables[variable(0)?];
                if let Some(now) = variable.now {
                    same.insert(output, now);
                } else {
                    variable.now = Some(output);
                    states.push(output);
                    file.tensors[output].name.clone_from(&variable.name);
                }
            }
            ("ASSIGN_VARIABLE", &[_, Some(value)], []) => {
                let variable = &mut variables[variable(0)?];
                (variable.now, variable.assigned) = (Some(value), true);
            }
            _ => {}
        }
    }
    file.operators.retain(|operator| operator.name != "READ_VARIABLE");
    for output in &mut file.outputs {
        *output = same.get(output).copied().unwrap_or(*output);
    }
    file.inputs.extend(states);
    let own = file.outputs.len();
    for Variable { name, now, .. } in variables.into_iter().filter(|variable| variable.assigned) {
        // A variable that keeps its value needs no output, and one whose value is an output has this one.
        let Some(now) = now.filter(|now| !file.inputs.contains(now) && !file.outputs[..own].contains(now)) else {
            continue;
        };
        if file.outputs.contains(&now) {
            return Err(format!(
                "the variable \"{name}\" gets the value of another one, \"{}\"",
                file.tensors[now].name
            ));
        }
        file.tensors[now].name = format!("{name} next");
        file.outputs.push(now);
    }
    Ok(())
}
