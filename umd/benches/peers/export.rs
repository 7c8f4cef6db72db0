// SPDX-License-Identifier: MIT OR Apache-2.0

//! The layers of a loadable: what its operations compute, without memory addresses and layouts.
//!
//! Operations that are connected on the fly become one layer. Bands of one convolution become one layer again. Surfaces that are
//! adjacent in memory and read as one are concatenated.

use nvdla_runtime::loadable::{Interface, Loadable};
use nvdla_runtime::operations::{self, NetworkOperation};
use nvdla_uapi::desc::{
    Activation, ConvOp, ConvSurface, DataCube, DataFormat, MemoryType, Operation, PdpOp, SdpOp, SdpOperandMode,
    SdpSurface, Surface,
};
use nvdla_uapi::reg::values::{ConvMode, PoolingMethod};
use serde_json::{json, Value};

/// Channels, lines, columns.
type Shape = [u32; 3];

/// A tensor in memory.
#[derive(Clone, Debug)]
struct Region {
    name: String,
    memory: u16,
    start: u64,
    shape: Shape,
    line: u64,
    surface: u64,
    size: u64,
}

impl Region {
    fn end(&self) -> u64 {
        self.start + self.size
    }

    fn elements(&self) -> u32 {
        self.shape.iter().product()
    }
}

/// The layers so far.
#[derive(Default)]
struct Export {
    inputs: Vec<Value>,
    layers: Vec<Value>,
    /// The tensors in memory.
    regions: Vec<Region>,
    /// Layers that pass their output on, by task and operation.
    handed: Vec<((u16, usize), Pending)>,
    /// The weights of the last convolution.
    weights: Option<(u16, u64)>,
}

/// A layer that has no output yet.
#[derive(Clone)]
struct Pending {
    /// The layers that pass their output on to this one, in order; each is the first input of the next.
    earlier: Vec<Value>,
    layer: Value,
    /// The weights of the convolution among these layers.
    weights: Option<(u16, u64)>,
}

impl Pending {
    fn new(layer: Value, weights: Option<(u16, u64)>) -> Self {
        Self { earlier: Vec::new(), layer, weights }
    }

    /// Passes the output on to a further layer, whose first input it becomes.
    fn append(&mut self, layer: Value) {
        self.earlier.push(std::mem::replace(&mut self.layer, layer));
    }
}

fn shape(cube: &DataCube) -> Shape {
    [cube.channel.into(), cube.height.into(), cube.width.into()]
}

/// The layers of a loadable, in the form that `tools/peers/peers.py` reads.
pub(crate) fn export(name: &str, loadable: &Loadable) -> Result<Value, String> {
    let mut export = Export::default();
    let operations = operations::operations(loadable).map_err(|error| error.to_string())?;
    for operation in &operations {
        export
            .operation(loadable, operation)
            .map_err(|error| format!("operation {} ({}): {error}", operation.index, operation.unit))?;
    }
    let last = export.layers.last().ok_or("no layer")?;
    let outputs = [last["output"].clone()];
    Ok(json!({"name": name, "inputs": export.inputs, "layers": export.layers, "outputs": outputs}))
}

impl Export {
    fn operation(&mut self, loadable: &Loadable, operation: &NetworkOperation) -> Result<(), String> {
        let place = |cube: &DataCube| {
            let task = loadable.tasks_in_order().find(|task| task.id() == operation.task)?;
            debug_assert_eq!(task.interface(), Interface::Dla1);
            let id = task.address_list().iter().nth(usize::try_from(cube.address).ok()?)?;
            let address = loadable.address(id)?;
            Some((address.mem_id(), address.offset() + u64::from(cube.offset)))
        };
        let place = |cube: &DataCube| place(cube).ok_or("a cube without an address".to_string());
        match (&operation.operation, &operation.surface) {
            (Operation::Conv(op), Surface::Conv(surface)) => {
                let layer = self.convolution(op, surface, place(&surface.src_data)?)?;
                let weights = Some(place(&surface.weight_data)?);
                self.handed.push(((operation.task, operation.index), Pending::new(layer, weights)));
                Ok(())
            }
            (Operation::Sdp(op), Surface::Sdp(surface)) => {
                let mut pending = self.source(operation, &surface.src_data, &place, "relu")?;
                self.points(op, surface, &mut pending, &place)?;
                self.hand_on(operation, pending, &surface.dst_data, &place)
            }
            (Operation::Pdp(op), Surface::Pdp(surface)) => {
                let mut pending = self.source(operation, &surface.src_data, &place, "")?;
                if !pending.layer["op"].as_str().unwrap_or("").is_empty() {
                    pending.append(json!({"inputs": [null]}));
                }
                pending.weights = None;
                pooling(op, shape(&surface.src_data), shape(&surface.dst_data), &mut pending.layer)?;
                self.hand_on(operation, pending, &surface.dst_data, &place)
            }
            (Operation::Cdp(op), Surface::Cdp(surface)) => {
                let input = self.find(place(&surface.src_data)?, &surface.src_data)?;
                let layer = json!({"op": "lrn", "inputs": [input], "size": op.local_size});
                self.hand_on(operation, Pending::new(layer, None), &surface.dst_data, &place)
            }
            _ => Err("no layer of an inference library is the same".into()),
        }
    }

    /// The layer that passes data to this operation, or a new layer `op` that reads memory.
    fn source(
        &mut self,
        operation: &NetworkOperation,
        cube: &DataCube,
        place: &impl Fn(&DataCube) -> Result<(u16, u64), String>,
        op: &str,
    ) -> Result<Pending, String> {
        if cube.mem_type != MemoryType::Hw {
            let input = self.find(place(cube)?, cube)?;
            return Ok(Pending::new(json!({"op": op, "inputs": [input]}), None));
        }
        let parent = operation.common.fused_parent.map(|parent| (operation.task, parent.index as usize));
        let at = self.handed.iter().position(|(key, _)| Some(*key) == parent).ok_or("nothing is handed to it")?;
        Ok(self.handed.swap_remove(at).1)
    }

    fn convolution(&mut self, op: &ConvOp, surface: &ConvSurface, from: (u16, u64)) -> Result<Value, String> {
        let input = self.find(from, &surface.src_data)?;
        let region = self.regions.iter().find(|region| region.name == input);
        let from = region.map(|region| region.shape);
        // A larger line stride leaves lines out.
        let lines = region.map_or(1, |region| u64::from(surface.src_data.line_stride) / region.line.max(1)).max(1);
        let channels: u32 = surface.src_data.channel.into();
        // For an image, the columns have become channels; for Winograd, the kernels are larger.
        let window = match (op.data_format, op.conv_mode) {
            (_, ConvMode::Winograd) => [3, 3],
            (DataFormat::Pixel(_), _) => [op.kernel_height_csc.into(), u32::from(op.kernel_channel_csc) / channels],
            (DataFormat::Feature, _) => [op.kernel_height_csc.into(), op.kernel_width_csc.into()],
        };
        Ok(json!({
            "op": "conv",
            "inputs": [input],
            "kernels": surface.dst_data.channel,
            "channels": channels,
            "kernel_shape": window,
            "strides": [u64::from(op.conv_stride_y.max(1)) * lines, u64::from(op.conv_stride_x.max(1))],
            "dilations": [op.dilation_y.max(1), op.dilation_x.max(1)],
            "before": [op.pad_y_top, op.pad_x_left],
            "from": from.unwrap_or(shape(&surface.src_data)),
            "into": shape(&surface.dst_data),
        }))
    }

    /// SDP's sub-units: sums of two tensors and ReLU. Bias and scale are part of a convolution.
    fn points(
        &mut self,
        op: &SdpOp,
        surface: &SdpSurface,
        pending: &mut Pending,
        place: &impl Fn(&DataCube) -> Result<(u16, u64), String>,
    ) -> Result<(), String> {
        let units = [(&op.x1_op, &surface.x1_data), (&op.x2_op, &surface.x2_data), (&op.y_op, &surface.y_data)];
        for (unit, data) in units.into_iter().filter_map(|(unit, data)| Some((unit.as_ref()?, data))) {
            if unit.mode == SdpOperandMode::PerPoint && unit.enable {
                let other = self.find(place(data)?, data)?;
                if pending.layer["op"] == "relu" {
                    pending.layer = json!({"op": "sum", "inputs": [pending.layer["inputs"][0], other]});
                } else {
                    pending.append(json!({"op": "sum", "inputs": [null, other]}));
                }
            }
            match unit.act {
                Activation::None => {}
                Activation::Relu | Activation::Prelu => pending.layer["relu"] = json!(true),
                Activation::Lut => return Err("a lookup table".into()),
            }
        }
        Ok(())
    }

    /// Passes a layer to the next operation, or stores its output in memory.
    fn hand_on(
        &mut self,
        operation: &NetworkOperation,
        pending: Pending,
        cube: &DataCube,
        place: &impl Fn(&DataCube) -> Result<(u16, u64), String>,
    ) -> Result<(), String> {
        if cube.mem_type == MemoryType::Hw {
            self.handed.push(((operation.task, operation.index), pending));
            return Ok(());
        }
        let (memory, start) = place(cube)?;
        let (line, surface) = (cube.line_stride.into(), cube.surf_stride.into());
        // A further band of the previous convolution: its lines follow.
        if let (Some(_), true, Some(last), Some(region)) =
            (pending.weights, pending.weights == self.weights, self.layers.last(), self.regions.last_mut())
        {
            let lines = u64::from(region.shape[1]);
            if last["output"] == region.name && region.memory == memory && start == region.start + lines * line {
                region.shape[1] += u32::from(cube.height);
                let first = self.layers.len() - pending.earlier.len() - 1;
                let band = pending.earlier.iter().chain([&pending.layer]);
                for (layer, band) in
                    self.layers[first..].iter_mut().zip(band).filter(|(layer, _)| layer["op"] == "conv")
                {
                    layer["into"][1] = json!(region.shape[1]);
                    layer["from"] = band["from"].clone();
                    finish(layer);
                }
                return Ok(());
            }
        }
        self.weights = pending.weights;
        let mut name = String::new();
        for mut layer in pending.earlier.into_iter().chain([pending.layer]) {
            if layer["inputs"][0].is_null() {
                layer["inputs"][0] = json!(name);
            }
            name = self.name();
            layer["output"] = json!(name);
            finish(&mut layer);
            self.layers.push(layer);
        }
        let surfaces = u64::from(cube.size).checked_div(surface).unwrap_or(1);
        let size = u64::from(cube.size).max(surfaces * surface);
        let region = Region { name, memory, start, shape: shape(cube), line, surface, size };
        self.regions.retain(|old| old.memory != memory || old.end() <= start || old.start >= region.end());
        self.regions.push(region);
        Ok(())
    }

    /// The tensor that a cube in memory belongs to.
    fn find(&mut self, (memory, start): (u16, u64), cube: &DataCube) -> Result<String, String> {
        let [channels, height, width] = shape(cube);
        let (line, surface) = (u64::from(cube.line_stride), u64::from(cube.surf_stride));
        // Further lines of an input, if its first reader read only a part of it.
        if let Some(region) = self.regions.iter_mut().find(|region| {
            let end = region.start + u64::from(region.shape[1]) * line;
            region.memory == memory
                && region.name.starts_with("input")
                && (region.shape[0], region.shape[2], region.line) == (channels, width, line)
                && (region.start..=end).contains(&start)
                && start + u64::from(height) * line > end
        }) {
            region.shape[1] = ((start - region.start) / line.max(1)) as u32 + height;
            region.size += u64::from(cube.size);
            let (name, lines) = (region.name.clone(), region.shape[1]);
            if let Some(input) = self.inputs.iter_mut().find(|input| input["name"] == name) {
                input["shape"][1] = json!(lines);
            }
            return Ok(name);
        }
        let here = self.regions.iter().filter(|region| region.memory == memory);
        // The tensor, or some of its lines, each or every second one, or its first columns: those that no window reads can be left
        // out.
        if let Some(region) = here.clone().find(|region| {
            let [c, h, w] = region.shape;
            (c, region.surface) == (channels, surface)
                && line.checked_rem(region.line) == Some(0)
                && width <= w
                && (region.start..region.start + u64::from(h) * line).contains(&start)
        }) {
            return Ok(region.name.clone());
        }
        // Adjacent tensors.
        let mut parts: Vec<&Region> = here
            .clone()
            .filter(|region| {
                (region.shape[1], region.shape[2], region.line, region.surface) == (height, width, line, surface)
                    && (start..start + u64::from(cube.size).max(1)).contains(&region.start)
            })
            .collect();
        parts.sort_by_key(|region| region.start);
        if parts.iter().map(|region| region.shape[0]).sum::<u32>() == channels {
            let inputs: Vec<String> = parts.iter().map(|region| region.name.clone()).collect();
            return Ok(self.derived(json!({"op": "concat", "inputs": inputs}), (memory, start), cube));
        }
        // The same elements in another shape.
        if let Some(region) =
            here.clone().find(|region| region.start == start && region.elements() == channels * height * width)
        {
            let layer = json!({"op": "reshape", "inputs": [region.name], "shape": [channels, height, width]});
            return Ok(self.derived(layer, (memory, start), cube));
        }
        if here.count() > 0 {
            return Err(format!("no layer made the cube {channels} x {height} x {width} at {start:#x}"));
        }
        let name = format!("input{}", self.inputs.len());
        self.inputs.push(json!({"name": name, "shape": [channels, height, width]}));
        self.regions.push(Region {
            name: name.clone(),
            memory,
            start,
            shape: [channels, height, width],
            line,
            surface,
            size: cube.size.into(),
        });
        Ok(name)
    }

    /// Adds a layer that moves no bytes, at the address of its input.
    fn derived(&mut self, mut layer: Value, (memory, start): (u16, u64), cube: &DataCube) -> String {
        let name = self.name();
        layer["output"] = json!(name);
        self.layers.push(layer);
        self.regions.push(Region {
            name: name.clone(),
            memory,
            start,
            shape: shape(cube),
            line: cube.line_stride.into(),
            surface: cube.surf_stride.into(),
            size: cube.size.into(),
        });
        name
    }

    fn name(&self) -> String {
        format!("t{}", self.layers.len())
    }
}

/// A pooling layer with the fields of `op`.
fn pooling(op: &PdpOp, from: Shape, into: Shape, layer: &mut Value) -> Result<(), String> {
    layer["op"] = json!(match op.pool_mode {
        PoolingMethod::Max => "max",
        PoolingMethod::Average => "average",
        PoolingMethod::Min => return Err("a minimum".into()),
    });
    layer["kernel_shape"] = json!([op.pool_height + 1, op.pool_width + 1]);
    layer["strides"] = json!([op.stride_y.max(1), op.stride_x.max(1)]);
    layer["before"] = json!([op.pad_top, op.pad_left]);
    (layer["from"], layer["into"]) = (json!(from), json!(into));
    Ok(())
}

/// Padding after the last element follows from the sizes, because descriptors often omit padding that no window reads.
fn finish(layer: &mut Value) {
    let Some(number) = layer.get("into").map(|_| |value: &Value| value.as_i64().unwrap_or(0)) else { return };
    let mut pads = [0; 4];
    for axis in 0..2 {
        let of = |name: &str| layer[name].get(axis).map_or(1, number);
        let window = (of("kernel_shape") - 1) * if layer["dilations"].is_null() { 1 } else { of("dilations") } + 1;
        let (from, into) = (number(&layer["from"][axis + 1]), number(&layer["into"][axis + 1]));
        let before = of("before");
        pads[axis] = before;
        pads[axis + 2] = ((into - 1) * of("strides") + window - from - before).max(0);
    }
    layer["pads"] = json!(pads);
}
