// SPDX-License-Identifier: MIT OR Apache-2.0

//! From the graph to operations of one configuration's hardware, a file a kind of operation.
//!
//! Every node that the outputs need becomes a surface and what writes it. A ReLU that is the only user of a convolution or a
//! sum becomes part of it. What the configuration cannot do is an error here, with the layer's name and the numbers.

mod convolution;
mod limits;
mod pooling;
mod relu;
mod softmax;
mod sum;

use std::collections::HashMap;

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::align::{Alignment, Data};
use nvdla_uapi::layout::feature;
use nvdla_uapi::layout::pixel::Image;
use nvdla_uapi::layout::Extents;
use nvdla_uapi::reg::values::{PixelFormat, Precision};

use crate::error::Error;
use crate::graph::{Graph, NodeId, Op, Shape};
use crate::program::{Format, Place, Program, Surface, SurfaceId};
use crate::quantize::{Granularity, Scales};

/// Lowers a graph.
pub fn lower(
    graph: &Graph,
    scales: &Scales,
    config: &'static Config,
    granularity: Granularity,
) -> Result<Program, Error> {
    if !config.has_feature_type(Precision::Int8) {
        return Err(Error::Network(format!("{} has no int8", config.name)));
    }
    if !config.sdp_bs {
        return Err(Error::Network(format!("{} has no SDP X1, which adds a convolution's bias", config.name)));
    }
    let program = Program { config, surfaces: Vec::new(), constants: Vec::new(), tasks: Vec::new() };
    let mut lowering = Lowering { graph, scales, config, granularity, program, made: HashMap::new() };
    lowering.run()?;
    Ok(lowering.program)
}

/// A lowering under way.
struct Lowering<'a> {
    graph: &'a Graph,
    scales: &'a Scales,
    config: &'static Config,
    granularity: Granularity,
    program: Program,
    /// The surfaces that exist, by the node whose value they hold.
    made: HashMap<NodeId, SurfaceId>,
}

impl Lowering<'_> {
    fn run(&mut self) -> Result<(), Error> {
        let live = self.live();
        if self.graph.outputs().is_empty() {
            return Err(Error::Network("the network has no output".to_owned()));
        }
        let mut inputs = 0;
        for (id, node) in self.graph.nodes() {
            match &node.op {
                Op::Input(_) => {
                    if !live[id.0] || self.graph.outputs().contains(&id) {
                        let reason = "as an input, it must be used, and not be an output".to_owned();
                        return Err(Error::Layer { layer: node.name.clone(), kind: "input", reason });
                    }
                    self.input(id, inputs)?;
                    inputs += 1;
                }
                _ if !live[id.0] || self.made.contains_key(&id) => {}
                Op::Convolution(op) => self.convolution(id, op)?,
                Op::Pooling(op) => self.pooling(id, op)?,
                Op::Relu => self.relu(id)?,
                Op::Softmax => self.softmax(id)?,
                Op::Sum(other) => self.sum(id, *other)?,
            }
        }
        Ok(())
    }

    /// Which nodes the outputs need.
    fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.graph.len()];
        let mut open = self.graph.outputs().to_vec();
        while let Some(id) = open.pop() {
            if !std::mem::replace(&mut live[id.0], true) {
                open.extend(self.graph.node(id).inputs());
            }
        }
        live
    }

    /// The surface of an input: an image where a convolution can read it so, else a feature cube.
    fn input(&mut self, id: NodeId, number: u16) -> Result<(), Error> {
        let node = self.graph.node(id);
        limits::cube(&node.name, node.shape)?;
        let pixel = match node.shape.channels {
            1 => Some(PixelFormat::R8),
            3 | 4 => Some(PixelFormat::A8B8G8R8),
            _ => None,
        };
        let convolved = self
            .graph
            .users(id)
            .all(|user| matches!(&self.graph.node(user).op, Op::Convolution(op) if convolution::reads_images(op)));
        let surface = match pixel {
            Some(format) if convolved => {
                let alignment = Alignment::documented(Data::Pixel).start;
                let image = Image::packed(format, node.shape.width, node.shape.height, 0, alignment)
                    .map_err(|error| Error::unsupported(&node.name, error.to_string()))?;
                Surface {
                    name: node.name.clone(),
                    shape: Shape { channels: image.format().channels, ..node.shape },
                    format: Format::Pixel(format),
                    line_stride: self.narrow(&node.name, image.line_stride(0))?,
                    surface_stride: 0,
                    size: self.narrow(&node.name, image.span(0))?,
                    place: Place::Input(number),
                }
            }
            _ => self.feature(&node.name, node.shape, Place::Input(number))?,
        };
        self.program.surfaces.push(surface);
        self.made.insert(id, SurfaceId(self.program.surfaces.len() - 1));
        Ok(())
    }

    /// Makes the surface that a node's value goes to.
    fn output(&mut self, id: NodeId) -> Result<SurfaceId, Error> {
        let node = self.graph.node(id);
        let place = match self.graph.outputs().iter().position(|&output| output == id) {
            Some(number) => Place::Output(number as u16),
            None => Place::Pool,
        };
        let surface = self.feature(&node.name, node.shape, place)?;
        self.program.surfaces.push(surface);
        let surface = SurfaceId(self.program.surfaces.len() - 1);
        self.made.insert(id, surface);
        Ok(surface)
    }

    /// A packed feature cube.
    fn feature(&self, name: &str, shape: Shape, place: Place) -> Result<Surface, Error> {
        limits::cube(name, shape)?;
        let extents = Extents::new(1, shape.channels, shape.height, shape.width);
        let cube = feature::Cube::packed(extents, Precision::Int8, self.config.memory_atomic)
            .map_err(|error| Error::unsupported(name, error.to_string()))?;
        Ok(Surface {
            name: name.to_owned(),
            shape,
            format: Format::Feature,
            line_stride: self.narrow(name, cube.line_stride())?,
            surface_stride: self.narrow(name, cube.surface_stride())?,
            size: self.narrow(name, cube.footprint())?,
            place,
        })
    }

    #[allow(clippy::unused_self)]
    fn narrow(&self, name: &str, bytes: u64) -> Result<u32, Error> {
        u32::try_from(bytes).map_err(|_| Error::unsupported(name, format!("{bytes} bytes pass 32 bits")))
    }

    /// The surface that a node reads. Inputs come before their users, so it exists.
    fn source(&self, id: NodeId) -> Result<(NodeId, SurfaceId), Error> {
        let node = self.graph.node(id);
        node.input
            .and_then(|from| Some((from, *self.made.get(&from)?)))
            .ok_or_else(|| Error::Network(format!("layer \"{}\" has no input", node.name)))
    }

    /// As [`Self::source`], a feature cube only.
    fn feature_source(&self, id: NodeId) -> Result<(NodeId, SurfaceId), Error> {
        let (from, surface) = self.source(id)?;
        self.check_feature(id, surface)?;
        Ok((from, surface))
    }

    fn check_feature(&self, id: NodeId, surface: SurfaceId) -> Result<(), Error> {
        match self.program.surface(surface).format {
            Format::Feature => Ok(()),
            Format::Pixel(format) => {
                let reason = format!("its input is an image ({format:?}), which only convolutions read");
                Err(Error::unsupported(&self.graph.node(id).name, reason))
            }
        }
    }

    /// The ReLU that is all that becomes of a node's value, if it is so.
    fn fused_relu(&self, id: NodeId) -> Option<NodeId> {
        let mut users = self.graph.users(id);
        let user = users.next()?;
        let only = users.next().is_none() && !self.graph.outputs().contains(&id);
        (only && self.graph.node(user).op == Op::Relu).then_some(user)
    }
}
