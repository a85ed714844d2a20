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

class Comparer {
 public:
  Comparer(Model* model, Model* source, const Plan& plan, const MemoryBudget& budget)
      : model_(*model),
        source_(*source),
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
    StripSchedule schedule(
        plan_, source_, layout, shard, 0, budget_.strip_elements / kStripShare, &groups_,
        [this](const TensorPlan& tensor) { return comparer_.read_scales(tensor); });
    Pipeline<ComparedStrip>::Stages stages;
    stages.read = [&](ComparedStrip* strip) {
      if (!schedule.next(&strip->strip.task)) return false;
      comparer_.read(strip, plan_.tensors[plan_.shard_begin[shard] + strip->strip.task.tensor]);
      return true;
    };
    stages.work = [&](ComparedStrip* strip) {
      comparer_.compare(strip, [pipeline] { return pipeline->is_stopping(); });
    };
    stages.write = [&](ComparedStrip* strip) {
      add(*strip);
      return true;
    };
    pipeline->run(stages);
    comparer_.release_all();
  }

  // In the order of the strips.
  void add(const ComparedStrip& strip) {
    if (strip.name.empty()) return;
    const bool is_cast = strip.strip.task.kind == TaskKind::cast;
    const bool is_new = strip.name != std::exchange(last_name_, strip.name);
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
    std::vector<std::vector<bool>> wanted;  // by shard and index
    wanted.reserve(model_.shards().size());
    for (const TensorFile& file : model_.shards()) wanted.emplace_back(file.tensors().size());
    for (const TensorPlan& tensor : plan_.tensors) {
      for (const OutputTensor& out : outputs_of(plan_, source_, tensor)) {
        names_.add_item();
        if (const auto place = model_.find(out.name)) wanted[place->shard][place->index] = true;
      }
    }
    for (const Place place : model_.tensors()) {
      if (wanted[place.shard][place.index]) continue;
      names_.add_problem(
          fmt::format("{}: the source gives no such tensor", model_.entry(place).name));
    }
  }

  const Model& model_;
  const Model& source_;
  const Plan& plan_;
  MemoryBudget budget_;
  StripComparer comparer_;
  GroupAmaxes groups_;
  std::string last_name_;  // the strips of a tensor come one behind the other
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
  if (max_memory < budget.least_bytes) {
    refuse_usage(
        "--against: the {} tensors of {} need {} MiB to be compared, verify takes {} MiB at most",
        plan.tensors.size(), source->path(), budget.least_bytes >> 20, max_memory >> 20);
  }
  return Comparer(model, source, plan, budget).run();
}

}  // namespace rowscale::checkpoint
