// rowscale-measure-weight: what FP8 costs a weight, for each granularity of the scales.
//
// Quantizes one weight of a model file (or one made here), dequantizes it, and prints how much
// noise each recipe adds and what its scales cost. Uses the public interface of rowscale, and the
// reader of safetensors files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "bench_timing.hpp"
#include "charts.hpp"
#include "checkpoint/safetensors.hpp"
#include "failure.hpp"
#include "float_bits.hpp"
#include "machine.hpp"
#include "output.hpp"
#include "random.hpp"
#include "rowscale/rowscale.hpp"

namespace {

using namespace rowscale;
using namespace rowscale::cli;
using checkpoint::SafetensorsFile;
using checkpoint::StoredType;
using checkpoint::TensorEntry;

struct Weight {
  std::string name;
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<std::byte> bytes;  // [rows, columns] of dtype
  std::vector<float> values;     // the same as floats, to compare with

  [[nodiscard]] TensorView view() const {
    return TensorView::contiguous(bytes.data(), dtype, {rows, columns});
  }
};

bool is_float(const TensorEntry& entry) {
  return entry.type == StoredType::f32 || entry.type == StoredType::f16 ||
         entry.type == StoredType::bf16;
}

bool is_measurable(const TensorEntry& entry) {
  return is_float(entry) && entry.shape.size() == 2 && entry.end > entry.begin;
}

// A weight of a linear layer, as far as its name tells: embeddings are looked up, not multiplied.
bool is_linear_weight(const TensorEntry& entry) {
  std::string name(entry.name);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string end = "weight";
  const bool ends_so =
      name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
  return ends_so && is_measurable(entry) && name.find("embed") == std::string::npos;
}

const TensorEntry& choose(const SafetensorsFile& file, const std::string& name) {
  if (!name.empty()) {
    const TensorEntry* entry = file.find(name);
    if (entry == nullptr) throw Failure(ExitCode::usage, "--tensor: the file has no " + name);
    if (!is_measurable(*entry)) {
      throw Failure(ExitCode::usage,
                    fmt::format("--tensor {}: expected F32, F16 or BF16 with 2 "
                                "dimensions, got {} [{}]",
                                name, to_string(entry->type), fmt::join(entry->shape, ", ")));
    }
    return *entry;
  }
  const TensorEntry* largest = nullptr;
  for (const TensorEntry& entry : file.tensors()) {
    if (!is_linear_weight(entry)) continue;
    if (largest == nullptr || entry.end - entry.begin > largest->end - largest->begin) {
      largest = &entry;
    }
  }
  if (largest == nullptr) {
    throw Failure(ExitCode::input, "the file has no float matrix whose name ends in weight");
  }
  return *largest;
}

void print_contents(const std::string& path, const SafetensorsFile& file) {
  int64_t bytes = 0;
  std::vector<std::pair<StoredType, int64_t>> types;
  for (const TensorEntry& entry : file.tensors()) {
    bytes += entry.end - entry.begin;
    const auto it = std::find_if(types.begin(), types.end(),
                                 [&](const auto& type) { return type.first == entry.type; });
    if (it == types.end())
      types.emplace_back(entry.type, 1);
    else
      ++it->second;
  }
  fmt::print("{}: {} tensors, {:.1f} MiB:", path, file.tensors().size(),
             static_cast<double>(bytes) / (1 << 20));
  for (size_t i = 0; i < types.size(); ++i) {
    fmt::print("{} {} {}", i == 0 ? "" : ",", types[i].second, to_string(types[i].first));
  }
  fmt::print("\n");
}

void decode_values(Weight* weight) {
  const int size = float_format(weight->dtype).bytes;
  weight->values.resize(static_cast<size_t>(weight->rows * weight->columns));
  for (size_t i = 0; i < weight->values.size(); ++i) {
    uint32_t bits = 0;  // little-endian, as the file and the machine
    std::memcpy(&bits, weight->bytes.data() + i * static_cast<size_t>(size),
                static_cast<size_t>(size));
    weight->values[i] = float_value(weight->dtype, bits);
  }
}

Weight read_weight(const std::string& path, const std::string& tensor) {
  SafetensorsFile file;
  if (const Status status = SafetensorsFile::open(path, &file); !status.ok()) {
    throw Failure(ExitCode::input, status.message());
  }
  print_contents(path, file);
  const TensorEntry& entry = choose(file, tensor);
  Weight weight;
  weight.name = std::string(entry.name);
  to_dtype(entry.type, &weight.dtype);
  weight.rows = entry.shape[0];
  weight.columns = entry.shape[1];
  // Copied, because the mapping may have any alignment, and so that no disk is timed.
  const std::byte* data = file.data(entry);
  weight.bytes.assign(data, data + (entry.end - entry.begin));
  decode_values(&weight);
  return weight;
}

// Like weights with outlier features: every 512th column is 16 times as large.
Weight generate_weight() {
  constexpr int64_t kSize = 4096;
  Weight weight;
  weight.name = "generated";
  weight.rows = weight.columns = kSize;
  weight.values.resize(static_cast<size_t>(kSize * kSize));
  Random random(1);
  for (size_t i = 0; i < weight.values.size(); ++i) {
    const float factor = i % 512 == 100 ? 16.0F : 1.0F;
    weight.values[i] = static_cast<float>(random.normal()) * 0.02F * factor;
  }
  weight.bytes.resize(weight.values.size() * sizeof(float));
  std::memcpy(weight.bytes.data(), weight.values.data(), weight.bytes.size());
  fmt::print(
      "No file: a weight made here, always the same. Normal values of deviation 0.02; "
      "every 512th column is 16 times as large.\n");
  return weight;
}

struct NamedRecipe {
  std::string name;
  Recipe recipe;
};

std::vector<NamedRecipe> recipes() {
  const auto ue8m0 = [](Recipe recipe) {
    recipe.encoding = ScaleEncoding::ue8m0;
    return recipe;
  };
  return {{"per_tensor", per_tensor()},
          {"per_channel", per_channel()},
          {"per_block(128,128)", per_block(128, 128)},
          {"per_group(128)", per_group(128)},
          {"per_block(128,128) ue8m0", ue8m0(per_block(128, 128))},
          {"per_group(128) ue8m0", ue8m0(per_group(128))},
          {"per_group(32) ue8m0", ue8m0(per_group(32))}};
}

struct Result {
  std::string name;
  int64_t scale_count = 0;
  int64_t scale_bytes = 0;
  double signal_to_noise = 0;  // dB
  double worst_row = 0;        // dB, the least of any row
  double worst = 0;            // absolute error
  double worst_of_row = 0;     // relative to the largest value of its row
  double seconds = 0;          // of quantize
  std::vector<double> log2_scales;
};

struct Errors {
  double signal_to_noise;
  double worst_row;
  double worst;
  double worst_of_row;
};

double decibels(double signal, double noise) {
  return 10 * std::log10(signal / noise);
}

// Elements that are no finite numbers have no error and are left out.
Errors compare(const Weight& weight, const std::vector<float>& decoded) {
  double signal = 0;
  double noise = 0;
  double worst_row = INFINITY;
  double worst = 0;
  double worst_of_row = 0;
  for (int64_t row = 0; row < weight.rows; ++row) {
    const float* x = weight.values.data() + row * weight.columns;
    const float* y = decoded.data() + row * weight.columns;
    double amax = 0;
    double row_worst = 0;
    double row_signal = 0;
    double row_noise = 0;
    for (int64_t i = 0; i < weight.columns; ++i) {
      if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
      const double error = std::fabs(double{x[i]} - double{y[i]});
      amax = std::max(amax, std::fabs(double{x[i]}));
      row_worst = std::max(row_worst, error);
      row_signal += double{x[i]} * double{x[i]};
      row_noise += error * error;
    }
    signal += row_signal;
    noise += row_noise;
    if (row_signal > 0) worst_row = std::min(worst_row, decibels(row_signal, row_noise));
    worst = std::max(worst, row_worst);
    if (amax > 0) worst_of_row = std::max(worst_of_row, row_worst / amax);
  }
  return {decibels(signal, noise), worst_row, worst, worst_of_row};
}

Result measure(const Weight& weight, const NamedRecipe& named, const Exec& exec) {
  const TensorView x = weight.view();
  std::vector<std::byte> codes_data(weight.values.size());
  const TensorView codes =
      TensorView::contiguous(codes_data.data(), DType::e4m3, {weight.rows, weight.columns});
  ScaleSpec spec;
  require(scale_spec(x, named.recipe, &spec));
  std::vector<std::byte> scales_data(
      static_cast<size_t>(spec.allocation * element_size(spec.dtype)));
  const TensorView scales = spec.view(scales_data.data());

  Result result;
  result.name = named.name;
  result.scale_count = scales.rows() * scales.columns();
  result.scale_bytes = static_cast<int64_t>(scales_data.size());
  const auto call = [&] { require(quantize(x, named.recipe, codes, scales, exec)); };
  result.seconds = median(time_rounds({call}, 5)[0]);

  std::vector<float> decoded(weight.values.size());
  const TensorView y =
      TensorView::contiguous(decoded.data(), DType::f32, {weight.rows, weight.columns});
  require(dequantize(codes, scales, named.recipe, y, exec));
  const Errors errors = compare(weight, decoded);
  result.signal_to_noise = errors.signal_to_noise;
  result.worst_row = errors.worst_row;
  result.worst = errors.worst;
  result.worst_of_row = errors.worst_of_row;

  if (spec.dtype != DType::f32) return result;
  for (int64_t i = 0; i < result.scale_count; ++i) {  // row_major: all of them, one by one
    float scale = 0;
    std::memcpy(&scale, scales_data.data() + static_cast<size_t>(i) * sizeof scale, sizeof scale);
    if (std::isfinite(scale) && scale > 0) result.log2_scales.push_back(std::log2(scale));
  }
  return result;
}

void print_results(const Weight& weight, const std::vector<Result>& results, int threads) {
  fmt::print("weight {}: {} [{}, {}], {:.1f} MiB; codes are e4m3, {:.1f} MiB\n\n",
             checkpoint::shown(weight.name), to_string(weight.dtype), weight.rows, weight.columns,
             static_cast<double>(weight.bytes.size()) / (1 << 20),
             static_cast<double>(weight.values.size()) / (1 << 20));
  Table table({{"recipe", false},
               {"scales"},
               {"scale bytes"},
               {"SNR dB"},
               {"worst row"},
               {"worst error"},
               {"of row's amax"},
               {"quantize GB/s"}});
  for (const Result& result : results) {
    const double speed = static_cast<double>(weight.bytes.size()) / result.seconds * 1e-9;
    table.add({result.name, grouped(result.scale_count), grouped(result.scale_bytes),
               fmt::format("{:.2f}", result.signal_to_noise),
               fmt::format("{:.2f}", result.worst_row), fmt::format("{:.3g}", result.worst),
               fmt::format("{:.2f} %", 100 * result.worst_of_row), fmt::format("{:.2f}", speed)});
  }
  fmt::print(
      "{}\nSNR: energy of the weight / energy of the error, of all and of the worst row; 3 dB more "
      "is half the error's energy.\nquantize GB/s: bytes of the weight a second, {} thread{}.\n",
      table.text(), threads, threads == 1 ? "" : "s");
}

const Result* find(const std::vector<Result>& results, const std::string& name) {
  for (const Result& result : results) {
    if (result.name == name && !result.log2_scales.empty()) return &result;
  }
  return nullptr;
}

std::string scales_note(const Result& result) {
  std::vector<double> sorted = result.log2_scales;
  std::sort(sorted.begin(), sorted.end());
  return fmt::format("{} scale{}, median 2^{:.1f}; SNR {:.1f} dB", grouped(result.scale_count),
                     result.scale_count == 1 ? "" : "s", sorted[sorted.size() / 2],
                     result.signal_to_noise);
}

void write_picture(const std::string& path, const Weight& weight,
                   const std::vector<Result>& results) {
  HistogramChart chart;
  chart.text.title = "How far apart are the scales of one weight?";
  chart.text.subtitle = {
      fmt::format("{}: {} [{}, {}] quantized to e4m3", weight.name, to_string(weight.dtype),
                  weight.rows, weight.columns),
      "A scale is the largest value that shares it, divided by 448. The dashed line is the scale "
      "that all "
      "would share;",
      "scales left of it keep smaller values at full precision, which e4m3 has for values down to "
      "scale / 64."};
  chart.text.x_axis = "log2(scale); one to the left is half the scale";
  chart.text.y_axis = "share of the scales";
  chart.text.footer = version();
  const struct {
    const char* recipe;
    const char* label;
  } panels[] = {{"per_channel", "per_channel: one scale a row"},
                {"per_block(128,128)", "per_block: one scale a block of 128 x 128"},
                {"per_group(128)", "per_group: one scale for 128 in a row"}};
  for (const auto& panel : panels) {
    const Result* result = find(results, panel.recipe);
    if (result == nullptr) continue;
    chart.panels.push_back({panel.label, scales_note(*result), result->log2_scales});
  }
  if (const Result* result = find(results, "per_tensor"); result != nullptr) {
    chart.marker = Marker{result->log2_scales[0],
                          fmt::format("per_tensor: one scale, 2^{:.1f}; SNR {:.1f} dB",
                                      result->log2_scales[0], result->signal_to_noise)};
  }
  write_file(path, draw(chart));
  fmt::print("wrote {}\n", path);
}

int run(int argc, char** argv) {
  std::string path;
  std::string tensor;
  std::string svg;
  bool generate = false;
  int threads = 0;
  CLI::App app("What FP8 costs a weight, for each granularity of the scales",
               "rowscale-measure-weight");
  CLI::Option* file = app.add_option("FILE", path, "a .safetensors file");
  app.add_option("--tensor", tensor, "the weight; left out: the largest of a linear layer")
      ->needs(file);
  app.add_flag("--generate", generate, "make a weight instead of reading one")->excludes(file);
  app.add_option("--svg", svg, "write a picture of the scales to this file");
  app.add_option("--threads", threads, "for quantizing; 0: all processors")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    if (!generate && path.empty()) throw CLI::RequiredError("FILE or --generate");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
  }
  const Weight weight = generate ? generate_weight() : read_weight(path, tensor);
  Exec exec;
  exec.threads = threads > 0 ? threads : this_machine().processors;
  std::vector<Result> results;
  for (const NamedRecipe& named : recipes()) results.push_back(measure(weight, named, exec));
  print_results(weight, results, exec.threads);
  if (!svg.empty()) write_picture(svg, weight, results);
  if (std::fflush(stdout) != 0) throw Failure(ExitCode::output, "stdout cannot be written");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto end = [](ExitCode code, const char* message) {
    std::fprintf(stderr, "rowscale-measure-weight: %s\n", message);
    return static_cast<int>(code);
  };
  try {
    return run(argc, argv);
  } catch (const Failure& failure) {
    return end(failure.code(), failure.what());
  } catch (const std::bad_alloc&) {
    return end(ExitCode::output, "not enough memory");
  } catch (const std::exception& error) {
    return end(ExitCode::fault, error.what());
  }
}
