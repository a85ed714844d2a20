#include "checkpoint/compare.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "checkpoint/compare_strip.hpp"
#include "checkpoint/failure.hpp"
#include "checkpoint/memory_budget.hpp"
#include "checkpoint/pipeline.hpp"
#include "checkpoint/strip_schedule.hpp"

namespace rowscale::checkpoint {
namespace {

// A compared strip also holds the result's codes and the source as floats, 15 bytes an element
// where a conversion's has 10; and there is the result's header beside the source's.
constexpr int64_t kStripShare = 2;

// All shards of a model open, until it dies.
class Acquired {
 public:
  explicit Acquired(Model* model) : model_(*model) {
    for (TensorFile& file : model_.shards()) require_readable(file.acquire());
  }
  Acquired(const Acquired&) = delete;
  Acquired(Acquired&&) = delete;
  Acquired& operator=(const Acquired&) = delete;
  Acquired& operator=(Acquired&&) = delete;
  ~Acquired() {
    for (TensorFile& file : model_.shards()) file.release();
  }

 private:
  Model& model_;
};

class Comparer {
 public:
  Comparer(const Model& model, const Model& source, const Plan& plan, const MemoryBudget& budget)
      : model_(model),
        source_(source),
        plan_(plan),
        budget_(budget),
        comparer_(plan, source, model) {}

  Comparison run() {
    Pipeline<ComparedStrip> pipeline(budget_.workers, budget_.strips);
    for (uint32_t shard = 0; shard < source_.shards().size(); ++shard) run_shard(shard, &pipeline);
    check_names();
    for (LayerError& layer : layers_) {
      weights_.add_item(layer.elements);
      if (layer.different_codes + layer.different_scales == 0) continue;
      weights_.add_problem(
          fmt::format("{}.weight: {} of {} codes and {} scales are not what the source gives",
                      layer.module, layer.different_codes, layer.elements, layer.different_scales));
    }
    std::sort(layers_.begin(), layers_.end(), [](const LayerError& a, const LayerError& b) {
      const double x = a.snr();
      const double y = b.snr();
      return x != y ? x < y : a.module < b.module;
    });
    return {{std::move(weights_), std::move(copies_), std::move(names_)}, std::move(layers_)};
  }

 private:
  void run_shard(uint32_t shard, Pipeline<ComparedStrip>* pipeline) {
    const ShardLayout layout(plan_, source_, shard);
    StripSchedule schedule(plan_, source_, layout, shard, 0, budget_.strip_elements / kStripShare,
                           &groups_,
                           [this](const TensorPlan& tensor) { return read_scales(tensor); });
    Pipeline<ComparedStrip>::Stages stages;
    stages.read = [&](ComparedStrip* strip) {
      if (!schedule.next(&strip->strip.task)) return false;
      comparer_.read(strip);
      return true;
    };
    stages.work = [&](ComparedStrip* strip) {
      const TensorPlan& tensor = plan_.tensors[plan_.shard_begin[shard] + strip->strip.task.tensor];
      comparer_.compare(strip, tensor, [pipeline] { return pipeline->is_stopping(); });
    };
    stages.write = [&](ComparedStrip* strip) {
      add(*strip);
      return true;
    };
    pipeline->run(stages);
  }

  std::vector<float> read_scales(const TensorPlan& tensor) const {
    const std::optional<ScaleTensor> scale = find_scale(source_, source_.entry(tensor.source).name);
    if (!scale) refuse_input("{}: has no scale", shown(source_.entry(tensor.source).name));
    const TensorEntry& entry = source_.entry(scale->place);
    std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes()));
    require_readable(
        source_.shards()[scale->place.shard].read(entry.begin, entry.bytes(), bytes.data()));
    return widened_scales(entry, bytes.data());
  }

  // In the order of the strips.
  void add(const ComparedStrip& strip) {
    if (strip.name.empty()) return;
    const bool is_cast = strip.strip.task.kind == TaskKind::cast;
    const bool is_new = seen_.insert(strip.name).second;
    if (!is_cast && is_new) copies_.add_item();
    if (!strip.problem.empty() && faulty_.insert(strip.name).second) {
      (is_cast ? weights_ : copies_).add_problem(strip.name + ": " + strip.problem);
    }
    if (!is_cast || strip.error.elements == 0) return;
    const auto [at, is_first] = layer_of_.try_emplace(strip.error.module, layers_.size());
    if (is_first) {
      layers_.push_back(strip.error);
    } else {
      layers_[at->second].add(strip.error);
    }
  }

  void check_names() {
    std::set<std::string> wanted;
    for (const TensorPlan& tensor : plan_.tensors) {
      for (OutputTensor& out : outputs_of(plan_, source_, tensor)) {
        wanted.insert(std::move(out.name));
      }
    }
    names_.add_item(static_cast<int64_t>(wanted.size()));
    for (const Place place : model_.tensors()) {
      const std::string name(model_.entry(place).name);
      if (wanted.count(name) == 0) names_.add_problem(name + ": the source gives no such tensor");
    }
  }

  const Model& model_;
  const Model& source_;
  const Plan& plan_;
  MemoryBudget budget_;
  StripComparer comparer_;
  GroupAmaxes groups_;
  std::set<std::string> seen_;
  std::set<std::string> faulty_;
  std::unordered_map<std::string, size_t> layer_of_;
  std::vector<LayerError> layers_;
  Check weights_{"weights", "each quantized weight is the one that the source gives"};
  Check copies_{"copies", "every other tensor is that of the source"};
  Check names_{"names", "there is no tensor that the source does not give"};
};

}  // namespace

Comparison compare(Model* model, Model* source, const Plan& plan, int threads, int64_t max_memory) {
  const MemoryBudget budget = make_budget(*source, plan, threads, max_memory);
  const Acquired held(model);
  const Acquired held_source(source);
  return Comparer(*model, *source, plan, budget).run();
}

}  // namespace rowscale::checkpoint
