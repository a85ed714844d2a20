// Every operator with every argument made wrong in every way: refused before any work, in words
// that name the parameter, what was expected and what came.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/api/operators_under_test.hpp"

namespace rowscale::test {
namespace {

constexpr DType kAllDTypes[] = {DType::f32,  DType::f16,   DType::bf16, DType::e4m3,
                                DType::e5m2, DType::ue8m0, DType::i32};

class Refusals : public OperatorsUnderTest {};

std::string expected(const Argument& argument) {
  return std::string(argument.name) + ": expected ";
}

TEST_F(Refusals, DTypes) {
  for_each_argument([&](const Operator& op, size_t at, const Argument& argument) {
    for (DType dtype : kAllDTypes) {
      if (std::count(argument.allowed.begin(), argument.allowed.end(), dtype) != 0) continue;
      expect_refused(op, at, [&](TensorView* v) { v->dtype = dtype; },
                     {expected(argument), to_string(argument.allowed[0]),
                      std::string("got ") + to_string(dtype)});
    }
  });
}

TEST_F(Refusals, DTypesThatAreNone) {
  for_each_argument([&](const Operator& op, size_t at, const Argument& argument) {
    for (int dtype : {-1, 7}) {
      expect_refused(op, at, [&](TensorView* v) { v->dtype = static_cast<DType>(dtype); },
                     {expected(argument), std::to_string(dtype)});
    }
  });
}

TEST_F(Refusals, Ranks) {
  for_each_argument([&](const Operator& op, size_t at, const Argument& argument) {
    for (int rank : {-1, 0, kMaxRank + 1, 1000}) {
      // Data that point nowhere are no tensor where one is optional; these point somewhere.
      expect_refused(op, at, [&](TensorView* v) { v->rank = rank; }, {expected(argument)});
    }
    if (argument.role == Role::input) {
      expect_refused(op, at, [&](TensorView* v) { v->rank = 0; }, {"rank 1 to 8", "got 0"});
    }
    if (is_weight(argument.role) || is_scales(argument.role)) {
      expect_refused(op, at,
                     [&](TensorView* v) {
                       v->rank = 3;
                       v->shape[2] = 1;
                     },
                     {expected(argument), ", 1]"});
    }
  });
}

TEST_F(Refusals, ColumnRanks) {
  for_each_argument([&](const Operator& op, size_t at, const Argument& argument) {
    if (is_scales(argument.role)) return;
    for (int rank : {0, -1, 3, 9}) {
      expect_refused(op, at, [&](TensorView* v) { v->column_rank = rank; },
                     {expected(argument) + "a column_rank", "got " + std::to_string(rank)});
    }
  });
}

TEST_F(Refusals, Shapes) {
  for_each_argument([&](const Operator& op, size_t at, const Argument& argument) {
    const int last = argument.view.rank - 1;
    for (int dim = 0; dim <= last; ++dim) {
      for (int64_t change : {1, -1}) {
        // Other data than its neighbours: the message names the one or the other.
        const bool is_first =
            (argument.role == Role::input && at == 0) || argument.role == Role::width;
        expect_refused(
            op, at, [&](TensorView* v) { v->shape[dim] += change; },
            is_first ? std::vector<std::string>{": expected ", "got "}
                     : std::vector<std::string>{expected(argument), "got "});
      }
      if (!is_scales(argument.role)) {
        expect_refused(op, at, [&](TensorView* v) { v->shape[dim] = -5; },
                       {expected(argument) + "sizes >= 0", "-5"});
      }
    }
    if (!is_scales(argument.role)) {
      // The same elements in another rank.
      expect_refused(op, at,
                     [&](TensorView* v) {
                       v->shape[v->rank++] = 1;
                       v->strides[v->rank - 1] = 1;
                     },
                     {": expected ", "got "});
    }
  });
}

TEST_F(Refusals, SizesThatOverflow) {
  for_each_argument([&](const Operator& op, size_t at, const Argument& argument) {
    if (is_scales(argument.role)) return;
    for (int64_t size : {int64_t{1} << 40, int64_t{1} << 62, INT64_MAX}) {
      expect_refused(op, at,
                     [&](TensorView* v) {
                       v->rank = 3;
                       std::fill_n(v->shape, 3, size);
                       std::fill_n(v->strides, 3, 1);
                     },
                     {expected(argument), "2^52"});
    }
    for (int64_t stride : {INT64_MAX, INT64_MIN, int64_t{1} << 62}) {
      if (is_weight(argument.role)) continue;
      expect_refused(op, at, [&](TensorView* v) { v->strides[0] = stride; },
                     {expected(argument), "strides", std::to_string(stride)});
    }
  });
}

TEST_F(Refusals, StridesOfColumns) {
  for_each_argument([&](const Operator& op, size_t at, const Argument& argument) {
    const int last = argument.view.rank - 1;
    for (int64_t stride : {0, 2, -1, 256}) {
      if (is_scales(argument.role)) {
        if (stride == argument.view.strides[last]) continue;
        expect_refused(op, at, [&](TensorView* v) { v->strides[last] = stride; },
                       {expected(argument), "strides [", std::to_string(stride)});
      } else {
        expect_refused(op, at, [&](TensorView* v) { v->strides[last] = stride; },
                       {expected(argument) + "a stride of 1 in the last dimension",
                        std::to_string(stride) + "]"});
      }
    }
  });
}

TEST_F(Refusals, NullPointers) {
  for_each_argument([&](const Operator& op, size_t at, const Argument& argument) {
    const std::string name = argument.name;
    if (name == "row_out" || name == "norm.residual") return;  // null: not wanted
    expect_refused(op, at, [&](TensorView* v) { v->data = nullptr; },
                   {expected(argument), "null pointer"});
  });
}

TEST_F(Refusals, OutputsThatOverlapThemselves) {
  for_each_argument([&](const Operator& op, size_t at, const Argument& argument) {
    if (argument.role != Role::output && argument.role != Role::updated) return;
    const int64_t short_of_a_row = argument.view.shape[1] - 1;
    for (int64_t stride : {int64_t{0}, int64_t{1}, short_of_a_row, -short_of_a_row}) {
      expect_refused(op, at, [&](TensorView* v) { v->strides[0] = stride; },
                     {expected(argument) + "elements that share no memory",
                      "strides [" + std::to_string(stride) + ", 1]"});
    }
  });
}

// Every output over every other argument: at the same place, at its last byte, and over its end.
TEST_F(Refusals, OverlapOfAnyTwo) {
  int compared = 0;
  for (const Operator& op : operators()) {
    for (size_t out = 0; out < op.arguments.size(); ++out) {
      if (!is_output(op.arguments[out].role)) continue;
      for (size_t other = 0; other < op.arguments.size(); ++other) {
        if (other == out) continue;
        const TensorView& view = op.arguments[other].view;
        int64_t bytes = element_size(view.dtype);
        for (int i = 0; i < view.rank; ++i)
          bytes += (view.shape[i] - 1) * view.strides[i] * element_size(view.dtype);
        for (int64_t offset : {int64_t{0}, int64_t{1}, bytes - 1}) {
          const bool in_place = op.name == "requantize" && out == 2 && other == 0 && offset == 0;
          if (in_place) continue;  // the one exception
          const std::string a = op.arguments[out].name;
          const std::string b = op.arguments[other].name;
          std::vector<TensorView> tensors;
          for (const Argument& argument : op.arguments) tensors.push_back(argument.view);
          tensors[out].data = static_cast<std::byte*>(view.data) + offset;
          const Status status = op.call(tensors, {});
          EXPECT_EQ(status.code(), StatusCode::invalid_argument)
              << op.name << ": " << a << " over " << b << " + " << offset;
          const std::string message = status.message();
          EXPECT_TRUE(message.find("overlaps") != std::string::npos &&
                      message.find(a) != std::string::npos && message.find(b) != std::string::npos)
              << op.name << ": " << a << " over " << b << " + " << offset << ": " << message;
          ++compared;
        }
      }
    }
    EXPECT_TRUE(same_bytes(memory_.content(), before_)) << op.name;
    used_ = 0;
  }
  EXPECT_GT(compared, 100);
}

TEST_F(Refusals, Devices) {
  for_each_argument([&](const Operator& op, size_t at, const Argument& argument) {
    const Device gpu{DeviceType::cuda, 0};
    expect_refused(op, at, [&](TensorView* v) { v->device = gpu; },
                   {at == 0 ? ": expected the device of" : expected(argument) + "the device of"});
    for (int index : {1, -1}) {
      expect_refused(op, at, [&](TensorView* v) { v->device.index = index; },
                     {std::string(argument.name) + ".device.index: expected 0 on the cpu, got " +
                      std::to_string(index)});
    }
    for (int type : {2, -1}) {
      expect_refused(op, at, [&](TensorView* v) { v->device.type = static_cast<DeviceType>(type); },
                     {std::string(argument.name) + ".device.type: expected one of cpu, cuda, got " +
                      std::to_string(type)});
    }
  });
}

// A tensor on a device that does not exist here: refused whether or not this build has kernels.
TEST_F(Refusals, AllOnADeviceThatIsNotThere) {
  for (const Operator& op : operators()) {
    std::vector<TensorView> tensors;
    for (const Argument& argument : op.arguments) {
      tensors.push_back(argument.view);
      tensors.back().device = {DeviceType::cuda, 99};
    }
    const Status status = op.call(tensors, {});
    EXPECT_TRUE(status.code() == StatusCode::unsupported || status.code() == StatusCode::no_device)
        << op.name << ": " << status.message();
    EXPECT_NE(status.message().find("cuda:99"), std::string::npos) << status.message();
    EXPECT_TRUE(same_bytes(memory_.content(), before_)) << op.name;
    used_ = 0;
  }
}

TEST_F(Refusals, ExecOptions) {
  for (const Operator& op : operators()) {
    std::vector<TensorView> tensors;
    for (const Argument& argument : op.arguments) tensors.push_back(argument.view);
    for (int threads : {-1, INT32_MIN}) {
      Exec exec;
      exec.threads = threads;
      const Status status = op.call(tensors, exec);
      EXPECT_EQ(status.code(), StatusCode::invalid_argument) << op.name;
      EXPECT_NE(
          status.message().find("exec.threads: expected 0 or more, got " + std::to_string(threads)),
          std::string::npos)
          << status.message();
    }
    for (int wrong : {-1, 44}) {
      Exec exec;
      exec.target = static_cast<Target>(wrong);
      Status status = op.call(tensors, exec);
      EXPECT_EQ(status.code(), StatusCode::invalid_argument) << op.name;
      EXPECT_EQ(status.message(), "exec.target: expected one of best, scalar, avx2, avx512, got " +
                                      std::to_string(wrong));
      exec = {};
      exec.dependent_launch = static_cast<DependentLaunch>(wrong);
      status = op.call(tensors, exec);
      EXPECT_EQ(status.code(), StatusCode::invalid_argument) << op.name;
      EXPECT_EQ(status.message(),
                "exec.dependent_launch: expected one of off, on, got " + std::to_string(wrong));
    }
    EXPECT_TRUE(same_bytes(memory_.content(), before_)) << op.name;
    used_ = 0;
  }
}

// The refusals above mean something only if the calls succeed when nothing is wrong.
TEST_F(Refusals, RightArgumentsAreAccepted) {
  std::memset(memory_.data(), 0, static_cast<size_t>(memory_.size()));
  for (const Operator& op : operators()) {
    std::vector<TensorView> tensors;
    for (const Argument& argument : op.arguments) tensors.push_back(argument.view);
    const Status status = op.call(tensors, {});
    EXPECT_TRUE(status.ok()) << op.name << ": " << status.message();
    used_ = 0;
  }
  EXPECT_TRUE(memory_.guards_are_unchanged());
}

// Counts belong to the input; in any other tensor they are not looked at, wherever they point: to
// nothing, to zeros that would mask every row, into an output.
TEST_F(Refusals, RowCountsOfOtherTensorsAreIgnored) {
  const std::vector<int32_t> none(kRows, 0);
  int compared = 0;
  for (const Operator& op : operators()) {
    const auto run = [&](const std::vector<TensorView>& tensors) {
      // Every dtype reads it as a small number.
      std::memset(memory_.data(), 0x3C, static_cast<size_t>(memory_.size()));
      const Status status = op.call(tensors, {});
      EXPECT_TRUE(status.ok()) << op.name << ": " << status.message();
      return memory_.content();
    };
    std::vector<TensorView> tensors;
    for (const Argument& argument : op.arguments) tensors.push_back(argument.view);
    const std::vector<std::byte> expected = run(tensors);
    for (size_t at = 0; at < tensors.size(); ++at) {
      if (op.arguments[at].role == Role::input) continue;
      for (const void* counts :
           {reinterpret_cast<const void*>(uintptr_t{1}), static_cast<const void*>(none.data()),
            static_cast<const void*>(tensors.back().data)}) {
        std::vector<TensorView> counted = tensors;
        counted[at].row_counts = static_cast<const int32_t*>(counts);
        EXPECT_TRUE(same_bytes(run(counted), expected)) << op.name << ", " << op.arguments[at].name;
        ++compared;
      }
    }
    used_ = 0;
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace rowscale::test
