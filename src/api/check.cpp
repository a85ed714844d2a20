#include "api/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

#include "api/byte_set.hpp"
#include "api/words.hpp"
#include "cuda/devices.hpp"

namespace rowscale::api {
namespace {

std::string join(const int64_t* values, int count) {
  return fmt::format("[{}]", fmt::join(values, values + count, ", "));
}

std::string shape_of(const TensorView& view) {
  return join(view.shape, view.rank);
}

int row_rank(const TensorView& view) {
  return std::max(view.rank - view.column_rank, 0);
}

bool is_empty(const TensorView& view) {
  return std::any_of(view.shape, view.shape + view.rank, [](int64_t n) { return n == 0; });
}

// The counts that the call reads; nullptr: none.
const int32_t* counts_of(Named tensor) {
  return tensor.role == Role::input && !is_empty(tensor.view) ? tensor.view.row_counts : nullptr;
}

}  // namespace

Status invalid(std::string message) {
  return {StatusCode::invalid_argument, std::move(message)};
}

Status check_shape(Named tensor) {
  const auto& [name, view, role] = tensor;
  if (view.rank < 0) {
    return invalid(fmt::format(
        "{}: expected a view whose dimensions are each named once, got one that as_rows() or "
        "strided() could not make",
        name));
  }
  if (view.rank < 1 || view.rank > kMaxRank) {
    return invalid(fmt::format("{}: expected rank 1 to {}, got {}", name, kMaxRank, view.rank));
  }
  if (view.column_rank < 1 || view.column_rank > view.rank) {
    return invalid(fmt::format("{}: expected a column_rank of 1 to {}, got {}", name, view.rank,
                               view.column_rank));
  }
  int64_t bytes = 16;  // the largest element, and the most that a layout pads a dimension to
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] < 0) {
      return invalid(fmt::format("{}: expected sizes >= 0, got shape {}", name, shape_of(view)));
    }
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(view.shape[i], 1), &bytes) ||
        bytes >= kMostBytes) {
      return invalid(
          fmt::format("{}: expected fewer than 2^52 elements, got shape {}", name, shape_of(view)));
    }
  }
  return {};
}

Status check_layout(Named tensor) {
  const auto& [name, view, role] = tensor;
  ROWSCALE_RETURN_IF_ERROR(check_shape(tensor));
  Extent extent;
  if (!extent_of(view, &extent)) {
    return invalid(fmt::format("{}: expected addresses within 2^56 bytes, got strides {}", name,
                               join(view.strides, view.rank)));
  }
  const int last = view.rank - 1;
  if (!is_empty(view) && view.shape[last] != 1 && view.strides[last] != 1) {
    return invalid(fmt::format("{}: expected a stride of 1 in the last dimension, got strides {}",
                               name, join(view.strides, view.rank)));
  }
  return {};
}

Status check_data(Named tensor, Elements elements) {
  const auto& [name, view, role] = tensor;
  ROWSCALE_RETURN_IF_ERROR(check_layout(tensor));
  if (view.columns() == 0 && view.rows() != 0) {
    return invalid(
        fmt::format("{}: expected at least one column, got shape {}", name, shape_of(view)));
  }
  if (is_empty(view)) return {};
  if (view.data == nullptr && elements == Elements::used) {
    return invalid(
        fmt::format("{}: expected data, got a null pointer for shape {}", name, shape_of(view)));
  }
  return {};
}

Status check_dtype(Named tensor, std::initializer_list<DType> allowed) {
  if (std::find(allowed.begin(), allowed.end(), tensor.view.dtype) != allowed.end()) return {};
  std::string names;
  for (DType dtype : allowed) {
    if (!names.empty()) names += dtype == *(allowed.end() - 1) ? " or " : ", ";
    names += to_string(dtype);
  }
  return invalid(
      fmt::format("{}: expected {}, got {}", tensor.name, names, text_of(tensor.view.dtype)));
}

Status check_float_rows(Named tensor, Elements elements) {
  ROWSCALE_RETURN_IF_ERROR(check_dtype(tensor, {DType::f32, DType::f16, DType::bf16}));
  return check_data(tensor, elements);
}

Status check_same_rows(Named tensor, Named reference, int64_t columns) {
  const TensorView& view = tensor.view;
  const TensorView& other = reference.view;
  const bool same = row_rank(view) == row_rank(other) &&
                    std::equal(view.shape, view.shape + row_rank(view), other.shape);
  if (same && view.columns() == columns) return {};
  // As many elements in another order of dimensions.
  const bool is_another_view =
      std::max(view.rank, other.rank) > 2 && view.rows() * view.columns() == other.rows() * columns;
  return invalid(fmt::format(
      "{}: expected rows {} of {} columns, as {}, got rows {} of {} columns{}", tensor.name,
      join(other.shape, row_rank(other)), columns, reference.name, join(view.shape, row_rank(view)),
      view.columns(), is_another_view ? "; as_rows() says which dimensions are rows" : ""));
}

Status check_codes(Named codes, Named reference, int64_t columns, const Recipe& recipe) {
  const DType dtype = recipe.format == Format::e4m3 ? DType::e4m3 : DType::e5m2;
  ROWSCALE_RETURN_IF_ERROR(check_dtype(codes, {dtype}));
  ROWSCALE_RETURN_IF_ERROR(check_data(codes));
  return check_same_rows(codes, reference, columns);
}

Status check_scales(Named scales, const TensorView& codes, const Recipe& recipe,
                    Elements elements) {
  ScaleSpec spec;
  ROWSCALE_RETURN_IF_ERROR(scale_spec(codes, recipe, &spec));
  const auto& [name, view, role] = scales;
  const auto expected = [&] {
    return fmt::format("{} {} strides {}", to_string(spec.dtype), join(spec.shape, spec.rank),
                       join(spec.strides, spec.rank));
  };
  const auto mismatch = [&] {
    return invalid(fmt::format("{}: expected {}, got {}; scale_spec() of the codes makes the view",
                               name, expected(), to_string(view)));
  };
  // A 0-dimensional tensor is one scale.
  const bool scalar = view.rank == 0 && recipe.granularity == Granularity::per_tensor;
  if (view.rank < 0 || view.rank > kMaxRank || view.dtype != spec.dtype ||
      (!scalar &&
       (view.rank != spec.rank || !std::equal(view.shape, view.shape + view.rank, spec.shape)))) {
    return mismatch();
  }
  if (spec.storage == 0) return {};
  for (int i = 0; i < view.rank; ++i) {
    // The stride of a dimension of size 1 is never used.
    if (view.shape[i] != 1 && view.strides[i] != spec.strides[i]) {
      return mismatch();
    }
  }
  if (view.data == nullptr && elements == Elements::used) {
    return invalid(fmt::format("{}: expected {}, got a null pointer", name, expected()));
  }
  return {};
}

namespace {

Status check_no_self_overlap(Named output) {
  const TensorView& view = output.view;
  if (is_empty(view)) return {};
  // From the smallest stride to the largest, each must step over all that lies below it.
  struct Dimension {
    int64_t size, stride;
  };
  Dimension dims[kMaxRank];
  int count = 0;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] == 1) continue;
    const Dimension dim{view.shape[i], std::abs(view.strides[i])};
    int at = count++;
    for (; at > 0 && dims[at - 1].stride > dim.stride; --at) dims[at] = dims[at - 1];
    dims[at] = dim;
  }
  int64_t reach = 0;
  for (int i = 0; i < count; ++i) {
    if (dims[i].stride <= reach) {
      return invalid(
          fmt::format("{}: expected elements that share no memory, got shape {} with "
                      "strides {}",
                      output.name, shape_of(view), join(view.strides, view.rank)));
    }
    reach += (dims[i].size - 1) * dims[i].stride;
  }
  return {};
}

Status check_no_overlap(Named output, Named other) {
  if (output.view.data == nullptr || other.view.data == nullptr || is_empty(output.view) ||
      is_empty(other.view)) {
    return {};
  }
  // What nearly every pair is, at the least cost.
  if (sharing(ByteSet::of_span(output.view), ByteSet::of_span(other.view)) == Sharing::none) {
    return {};
  }
  const auto bytes_of = [](Named tensor) {
    return tensor.role == Role::scales ? ByteSet::of_span(tensor.view)
                                       : ByteSet::of_elements(tensor.view);
  };
  const Sharing shared = sharing(bytes_of(output), bytes_of(other));
  if (shared == Sharing::none) return {};
  return invalid(fmt::format(
      "{}: expected memory of its own, got memory that overlaps {}{}", output.name, other.name,
      shared == Sharing::some ? "" : " or interleaves with it at other strides"));
}

}  // namespace

Status check_disjoint(std::initializer_list<Named> outputs, std::initializer_list<Named> inputs) {
  for (const Named* output = outputs.begin(); output != outputs.end(); ++output) {
    if (output->view.data == nullptr) continue;
    ROWSCALE_RETURN_IF_ERROR(check_no_self_overlap(*output));
    for (const Named& input : inputs) {
      ROWSCALE_RETURN_IF_ERROR(check_no_overlap(*output, input));
      if (counts_of(input) == nullptr) continue;
      const int batch_rank = row_rank(input.view) - 1;
      TensorView counts = TensorView::contiguous(
          counts_of(input), DType::i32,
          std::span(input.view.shape, static_cast<size_t>(std::max(batch_rank, 0))));
      ROWSCALE_RETURN_IF_ERROR(check_no_overlap(*output, {"row_counts", counts, Role::scales}));
    }
    for (const Named* other = output + 1; other != outputs.end(); ++other) {
      ROWSCALE_RETURN_IF_ERROR(check_no_overlap(*output, *other));
    }
  }
  return {};
}

Status check_disjoint_codes(Named codes, Named scales, const Recipe& recipe,
                            std::initializer_list<Named> inputs) {
  ROWSCALE_RETURN_IF_ERROR(check_disjoint({codes}, {scales}));
  ROWSCALE_RETURN_IF_ERROR(check_disjoint({codes}, inputs));
  if (recipe.scale_source == ScaleSource::given) return {};
  return check_disjoint({scales}, inputs);
}

namespace {

// Of CUDA tensors: the device is there, and every pointer is memory that it can reach.
// Also the workspace, which is an output of the call.
Status check_device_memory(std::initializer_list<Named> tensors, const Exec& exec) {
  const Device device = tensors.begin()->view.device;
  if (device.type != DeviceType::cuda) return {};
  cuda::DeviceFacts facts;
  if (const Status status = cuda::find_device(device.index, &facts); !status.ok()) {
    const Named& first = *tensors.begin();
    return {status.code(),
            fmt::format("{}: {}; got {}", first.name, status.message(), to_string(first.view))};
  }
  const auto check = [device](const char* name, const void* data) {
    return data == nullptr ? Status() : cuda::check_memory(name, data, device.index);
  };
  for (const Named& tensor : tensors) {
    if (!is_empty(tensor.view)) ROWSCALE_RETURN_IF_ERROR(check(tensor.name, tensor.view.data));
    ROWSCALE_RETURN_IF_ERROR(check("row_counts", counts_of(tensor)));
  }
  if (exec.workspace.bytes == 0) return {};  // where it is may be the end of other memory
  ROWSCALE_RETURN_IF_ERROR(check("exec.workspace", exec.workspace.data));
  const TensorView workspace = TensorView::contiguous(
      exec.workspace.data, DType::e4m3,
      {static_cast<int64_t>(std::min<uint64_t>(exec.workspace.bytes, kMostBytes - 1))});
  for (const Named& tensor : tensors) {
    ROWSCALE_RETURN_IF_ERROR(check_no_overlap({"exec.workspace", workspace, Role::scales}, tensor));
  }
  return {};
}

Status check_device(Named tensor) {
  const Device device = tensor.view.device;
  if (word_of(device.type) == nullptr) {  // the name costs an allocation
    return check_word(fmt::format("{}.device.type", tensor.name), device.type);
  }
  if (device.type != DeviceType::cpu || device.index == 0) return {};
  return invalid(
      fmt::format("{}.device.index: expected 0 on the cpu, got {}", tensor.name, device.index));
}

}  // namespace

Status check_exec(std::initializer_list<Named> tensors, const Exec& exec) {
  const Named& first = *tensors.begin();
  for (const Named& tensor : tensors) {
    if (is_absent(tensor.view)) continue;
    ROWSCALE_RETURN_IF_ERROR(check_device(tensor));
    if (tensor.view.device != first.view.device) {
      return invalid(fmt::format("{}: expected the device of {}, got {}", tensor.name, first.name,
                                 to_string(tensor.view)));
    }
    const int32_t* counts = counts_of(tensor);
    if (reinterpret_cast<uintptr_t>(counts) % alignof(int32_t) != 0) {
      return invalid(fmt::format("row_counts: expected an address that is a multiple of {}, got {}",
                                 alignof(int32_t), static_cast<const void*>(counts)));
    }
  }
  ROWSCALE_RETURN_IF_ERROR(check_word("exec.target", exec.target));
  ROWSCALE_RETURN_IF_ERROR(check_word("exec.dependent_launch", exec.dependent_launch));
  if (exec.threads < 0) {
    return invalid(fmt::format("exec.threads: expected 0 or more, got {}", exec.threads));
  }
  return check_device_memory(tensors, exec);
}

}  // namespace rowscale::api
