"""rowscale's C interface by ctypes, for tensors of PyTorch on a GPU. Structs as in rowscale.h."""

import ctypes

import torch

MAX_RANK = 8
DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2, torch.float8_e4m3fn: 3}
SCALE_DTYPES = {0: torch.float32, 5: torch.uint8, 6: torch.int32}  # f32, ue8m0, packed words
CUDA = 1


class Tensor(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("data", ctypes.c_void_p), ("dtype", ctypes.c_int32),
                ("device_type", ctypes.c_int32), ("device_index", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("column_rank", ctypes.c_int32), ("shape", ctypes.c_int64 * MAX_RANK),
                ("strides", ctypes.c_int64 * MAX_RANK), ("row_counts", ctypes.c_void_p)]


class Recipe(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("granularity", ctypes.c_int32), ("format", ctypes.c_int32),
                ("group_size", ctypes.c_int64), ("block_rows", ctypes.c_int64), ("block_columns", ctypes.c_int64),
                ("scale_source", ctypes.c_int32), ("encoding", ctypes.c_int32), ("layout", ctypes.c_int32),
                ("floor_kind", ctypes.c_int32), ("floor_value", ctypes.c_float), ("bound_kind", ctypes.c_int32),
                ("bound_value", ctypes.c_float), ("quotient", ctypes.c_int32), ("nan_rule", ctypes.c_int32),
                ("profile", ctypes.c_int32)]


class Exec(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("stream", ctypes.c_void_p), ("workspace", ctypes.c_void_p),
                ("workspace_bytes", ctypes.c_size_t), ("threads", ctypes.c_int32), ("target", ctypes.c_int32),
                ("dependent_launch", ctypes.c_int32)]


class ScaleSpec(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * MAX_RANK), ("strides", ctypes.c_int64 * MAX_RANK),
                ("storage", ctypes.c_int64), ("allocation", ctypes.c_int64)]


class RmsNormArgs(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("weight", ctypes.POINTER(Tensor)),
                ("residual", ctypes.POINTER(Tensor)), ("eps", ctypes.c_float), ("form", ctypes.c_int32)]


class MatmulOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("a", ctypes.POINTER(Recipe)), ("b", ctypes.POINTER(Recipe)),
                ("backend", ctypes.c_int32), ("accumulation", ctypes.c_int32), ("tuning", ctypes.c_int32),
                ("batch_invariance", ctypes.c_int32)]


class MatmulTensors(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (name, ctypes.POINTER(Tensor)) for name in ("a", "b", "scale_a", "scale_b", "bias", "out", "expert_offsets")]


def sized(kind):
    return kind(struct_size=ctypes.sizeof(kind))


def view(tensor):
    """The tensor's memory as the C interface takes it."""
    out = sized(Tensor)
    out.data, out.dtype = tensor.data_ptr(), DTYPES[tensor.dtype]
    out.device_type, out.device_index = CUDA, tensor.device.index or 0
    out.rank, out.column_rank = tensor.dim(), 1
    out.shape[:tensor.dim()] = tensor.shape
    out.strides[:tensor.dim()] = tensor.stride()
    return out


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        for name in ("rs_version", "rs_last_error"):
            getattr(self.c, name).restype = ctypes.c_char_p

    def version(self):
        return self.c.rs_version().decode()

    def require(self, status):
        if status != 0:
            raise RuntimeError(f"rowscale: {self.c.rs_last_error().decode()}")

    def recipe(self, text):
        """`text`: what rs_recipe_parse reads, such as "granularity=per_group(128)"."""
        out = sized(Recipe)
        self.require(self.c.rs_recipe_parse(text.encode(), ctypes.byref(out)))
        return out

    def scale_spec(self, codes, recipe):
        out = sized(ScaleSpec)
        self.require(self.c.rs_get_scale_spec(ctypes.byref(codes), ctypes.byref(recipe), ctypes.byref(out)))
        return out

    def workspace_bytes(self, x, recipe):
        out = ctypes.c_size_t()
        self.require(self.c.rs_quantize_workspace_bytes(ctypes.byref(x), ctypes.byref(recipe), ctypes.byref(out)))
        return out.value


class Quantize:
    """rs_quantize of one recipe on several tensors of one shape, ready to be called.

    x, codes: lists of tensors, one a set. scales: allocated here, one a set, in the recipe's layout.
    """

    def __init__(self, library, text, x, codes, stream):
        self.library, self.recipe = library, library.recipe(text)
        self.tensors = (x, codes)  # what the views point to
        self.x, self.codes = [view(t) for t in x], [view(t) for t in codes]
        spec = library.scale_spec(self.codes[0], self.recipe)
        dtype = SCALE_DTYPES[spec.dtype]
        self.scales = [torch.zeros(max(spec.allocation, 1), dtype=dtype, device=x[0].device) for _ in x]
        self.scale_strides = list(spec.strides[:spec.rank])
        self.scale_shape = list(spec.shape[:spec.rank])
        self.scale_bytes = spec.storage * self.scales[0].element_size()
        self.scale_views = []
        for scales in self.scales:
            scale_view = sized(Tensor)
            library.require(library.c.rs_scale_spec_view(ctypes.byref(spec), ctypes.c_void_p(scales.data_ptr()),
                                                         ctypes.byref(scale_view)))
            scale_view.device_type, scale_view.device_index = CUDA, x[0].device.index or 0
            self.scale_views.append(scale_view)
        needed = library.workspace_bytes(self.x[0], self.recipe)
        self.workspace = torch.empty(max(needed, 1), dtype=torch.uint8, device=x[0].device)
        self.exec = sized(Exec)
        self.exec.stream, self.exec.threads = stream, 1
        self.exec.workspace, self.exec.workspace_bytes = self.workspace.data_ptr(), needed

    def outputs(self, index):
        return ctypes.byref(self.codes[index]), ctypes.byref(self.scale_views[index])

    def __call__(self, index):
        status = self.library.c.rs_quantize(ctypes.byref(self.x[index]), ctypes.byref(self.recipe),
                                            *self.outputs(index), ctypes.byref(self.exec))
        self.library.require(status)

    def scale_matrix(self, index):
        """The scales as a matrix of the layout's shape and strides."""
        return torch.as_strided(self.scales[index], self.scale_shape, self.scale_strides)


class Producer:
    """A norm or an activation of several tensors of one shape: its name in the C interface, and what it has beside x.

    weight: of a norm, for all sets. residuals: updated in place, one a set; None for none.
    """

    def __init__(self, name, weight=None, residuals=None):
        self.name = name
        self.tensors = (weight, residuals)
        self.views = []  # what the arguments point to
        self.arguments = []
        if weight is None:
            return
        weight_view = view(weight)
        for residual in residuals or [None]:
            residual_view = None if residual is None else view(residual)
            self.views.append((weight_view, residual_view))
            arguments = sized(RmsNormArgs)
            arguments.weight = ctypes.pointer(weight_view)
            if residual_view is not None:
                arguments.residual = ctypes.pointer(residual_view)
            arguments.eps = 1e-6
            self.arguments.append(arguments)

    def of(self, index):
        """Behind x in a call on this set."""
        if not self.arguments:
            return ()
        return (ctypes.byref(self.arguments[index % len(self.arguments)]),)


class ProduceAndQuantize(Quantize):
    """The fused operator; rows: where the row is stored as it was made, one a set, or None."""

    def __init__(self, library, producer, text, x, codes, rows, stream):
        super().__init__(library, text, x, codes, stream)
        self.producer = producer
        self.function = getattr(library.c, f"rs_{producer.name}_quantize")
        self.row_tensors = rows
        self.rows = None if rows is None else [view(t) for t in rows]

    def __call__(self, index):
        row = None if self.rows is None else ctypes.byref(self.rows[index])
        self.library.require(self.function(ctypes.byref(self.x[index]), *self.producer.of(index),
                                           ctypes.byref(self.recipe), *self.outputs(index), row,
                                           ctypes.byref(self.exec)))


class Chain(Quantize):
    """The operator alone, into rows, and quantize of those rows."""

    def __init__(self, library, producer, text, x, codes, rows, stream):
        super().__init__(library, text, rows, codes, stream)
        self.producer = producer
        self.function = getattr(library.c, f"rs_{producer.name}")
        self.input_tensors = x
        self.inputs = [view(t) for t in x]

    def __call__(self, index):
        self.library.require(self.function(ctypes.byref(self.inputs[index]), *self.producer.of(index),
                                           ctypes.byref(self.x[index]), ctypes.byref(self.exec)))
        super().__call__(index)


class Matmul:
    """A plan for the product of what two Quantize made, and runs of it. a, b: Quantize; out: a list of tensors, one a set."""

    def __init__(self, library, a, b, out, stream, accumulation=0, tuning=0):
        self.library, self.parts = library, (a, b, out)
        options = sized(MatmulOptions)
        options.a, options.b = ctypes.pointer(a.recipe), ctypes.pointer(b.recipe)
        options.accumulation, options.tuning = accumulation, tuning
        self.out = [view(tensor) for tensor in out]
        self.tensors = []
        for index, out_view in enumerate(self.out):
            tensors = sized(MatmulTensors)
            tensors.a, tensors.scale_a = ctypes.pointer(a.codes[index]), ctypes.pointer(a.scale_views[index])
            tensors.b, tensors.scale_b = ctypes.pointer(b.codes[index]), ctypes.pointer(b.scale_views[index])
            tensors.out = ctypes.pointer(out_view)
            self.tensors.append(tensors)
        self.plan = ctypes.c_void_p()
        library.require(library.c.rs_matmul_plan_make(ctypes.byref(self.tensors[0]), ctypes.byref(options),
                                                      ctypes.byref(self.plan)))
        needed = ctypes.c_size_t()
        library.require(library.c.rs_matmul_plan_workspace_bytes(self.plan, ctypes.byref(needed)))
        self.workspace = torch.empty(max(needed.value, 1), dtype=torch.uint8, device=out[0].device)
        self.exec = sized(Exec)
        self.exec.stream, self.exec.threads = stream, 1
        self.exec.workspace, self.exec.workspace_bytes = self.workspace.data_ptr(), needed.value

    def text(self):
        out = ctypes.create_string_buffer(4096)
        self.library.require(self.library.c.rs_matmul_plan_to_string(self.plan, out, ctypes.c_size_t(len(out)), None))
        return out.value.decode()

    def __call__(self, index):
        self.library.require(self.library.c.rs_matmul_plan_run(self.plan, ctypes.byref(self.tensors[index]),
                                                               ctypes.byref(self.exec)))
