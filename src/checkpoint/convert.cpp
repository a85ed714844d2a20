#include "checkpoint/convert.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/failure.hpp"
#include "checkpoint/journal.hpp"
#include "checkpoint/journal_header.hpp"
#include "checkpoint/memory_budget.hpp"
#include "checkpoint/model_card.hpp"
#include "checkpoint/open_shards.hpp"
#include "checkpoint/output_file.hpp"
#include "checkpoint/output_texts.hpp"
#include "checkpoint/pipeline.hpp"
#include "checkpoint/plain_file.hpp"
#include "checkpoint/record.hpp"
#include "checkpoint/shard_layout.hpp"
#include "checkpoint/strip_schedule.hpp"
#include "checkpoint/strip_work.hpp"
#include "checkpoint/target_folder.hpp"

namespace rowscale::checkpoint {
namespace {

// Whole MiB as such: what the user wrote, most often.
std::string memory_text(int64_t bytes) {
  const bool is_whole = bytes % (int64_t{1} << 20) == 0;
  return is_whole ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} bytes", bytes);
}

MemoryBudget require_budget(const Model& model, const Plan& plan, const ConvertRequest& request) {
  const MemoryBudget out = make_budget(model, plan, request.threads, request.max_memory);
  if (request.max_memory >= out.least_bytes) return out;
  refuse_usage("--max-memory: expected at least {} for the {} tensors of this model, got {}",
               memory_text(out.least_bytes), plan.tensors.size(), memory_text(request.max_memory));
}

class Converter {
 public:
  Converter(Model* model, const Plan& plan, const ConvertRequest& request, Listener* listener)
      : model_(*model),
        plan_(plan),
        request_(request),
        listener_(*listener),
        target_(*model, request),
        shards_(model),
        work_(plan, *model),
        budget_(require_budget(*model, plan, request)),
        pipeline_(budget_.workers, budget_.strips) {
    for (Strip& strip : pipeline_.strips()) strip.device = open_strip_device(request.device);
  }

  Outcome run() {
    target_.begin();
    const nlohmann::ordered_json header = journal_header(model_, plan_, request_.card);
    journal_ = std::make_unique<Journal>(target_.is_resumed()
                                             ? Journal::resume(target_.journal_path(), header)
                                             : Journal::create(target_.journal_path(), header));
    if (request_.unfinished == Unfinished::resume && !target_.is_resumed()) {
      listener_.found_nothing_to_resume();
    }
    if (target_.is_published()) {
      finish();
      return Outcome::done;
    }
    for (uint32_t shard = 0; shard < model_.shards().size(); ++shard) {
      if (listener_.should_stop()) return Outcome::stopped;
      if (is_finished(model_.shard_name(shard))) {
        count_shard(shard);
      } else if (convert_shard(shard) == Outcome::stopped) {
        return Outcome::stopped;
      }
    }
    for (const CopiedFile& file : copied_files(model_, request_.card)) {
      if (listener_.should_stop()) return Outcome::stopped;
      copy_side_file(file.from, file.to);
    }
    if (listener_.should_stop()) return Outcome::stopped;
    write_texts();
    target_.publish({kRecordName, model_.index_name(), kConfigName});
    finish();
    return Outcome::done;
  }

  // What no run can continue.
  void discard() {
    journal_.reset();
    try {
      target_.discard();
    } catch (const Failure&) {  // what failed first is told; what is left is still known as ours
      return;
    }
  }

 private:
  bool writes_card() const { return request_.card == Card::write; }

  void finish() {
    journal_.reset();
    target_.tidy();
  }

  // Whether the file that an earlier run finished is still what the journal says.
  bool is_intact(const FinishedFile& file) const {
    try {
      const PlainFile in(target_.finished_path(file.name));
      if (in.bytes() != file.bytes) return false;
      Sha256 hash;
      std::vector<std::byte> piece(kPiece);
      for (int64_t at = 0; at < in.bytes(); at += kPiece) {
        if (listener_.should_stop()) return true;  // the next step asks too
        const int64_t count = std::min(kPiece, in.bytes() - at);
        in.read(at, count, piece.data());
        hash.update(piece.data(), static_cast<size_t>(count));
      }
      return hash.hex() == file.sha256;
    } catch (const Failure&) {  // gone, or cannot be read: made anew
      return false;
    }
  }

  bool is_finished(const std::string& name) {
    const FinishedFile* file = journal_->find(name);
    if (file == nullptr || !is_intact(*file)) return false;
    finished_.push_back(*file);
    return true;
  }

  void finish_file(OutputFile* file, const std::string& name) {
    const int64_t bytes = file->cursor();
    FinishedFile done{name, bytes, file->finish()};
    sync_folder(std::filesystem::path(target_.in_work(name)).parent_path().string());
    journal_->add(done);
    listener_.finished(done.name, done.bytes, done.sha256);
    finished_.push_back(std::move(done));
  }

  uint32_t tensors_in(uint32_t shard) const {
    return plan_.shard_begin[shard + 1] - plan_.shard_begin[shard];
  }
  const TensorPlan& tensor_of(uint32_t shard, uint32_t i) const {
    return plan_.tensors[plan_.shard_begin[shard] + i];
  }

  void count_shard(uint32_t shard) { count_tensors(shard, tensors_in(shard)); }
  void count_tensors(uint32_t shard, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      done_bytes_ += model_.entry(tensor_of(shard, i).source).bytes();
    }
    listener_.progress(done_bytes_, plan_.source_bytes);
  }

  // The hash of what the tensor has in the tail, added.
  static void hash_tail(const ShardLayout& layout, const OutputFile& file, uint32_t tensor,
                        Sha256* hash) {
    std::vector<std::byte> bytes;
    for (uint32_t i = 0; i < layout.slot_count(tensor); ++i) {
      const Slot slot = layout.slots_of(tensor)[i];
      if (slot.begin < layout.tail_begin()) continue;
      for (int64_t at = 0; at < slot.bytes; at += kPiece) {
        const int64_t count = std::min(kPiece, slot.bytes - at);
        bytes.resize(static_cast<size_t>(count));
        file.read(slot.begin + at, count, bytes.data());
        hash->update(bytes.data(), bytes.size());
      }
    }
  }

  // Where the tensor's part that is written in order ends, or `otherwise`.
  static int64_t ordered_end(const ShardLayout& layout, uint32_t tensor, int64_t otherwise) {
    for (uint32_t i = layout.slot_count(tensor); i > 0; --i) {
      const Slot slot = layout.slots_of(tensor)[i - 1];
      if (slot.begin < layout.tail_begin()) return slot.begin + slot.bytes;
    }
    return otherwise;
  }

  // What an earlier run left of the shard, if its bytes are still what the journal says.
  std::unique_ptr<OutputFile> continue_shard(const ShardLayout& layout, uint32_t shard,
                                             Sha256* tail, uint32_t* first) {
    const std::string& name = model_.shard_name(shard);
    const auto& left = journal_->unfinished();
    if (!left || left->name != name || left->tensors > tensors_in(shard)) return nullptr;
    try {
      auto file = std::make_unique<OutputFile>(
          OutputFile::reopen(target_.in_work(name), target_.part_path()));
      file->append_from_file(left->cursor);
      Sha256 hash;
      for (uint32_t i = 0; i < left->tensors; ++i) hash_tail(layout, *file, i, &hash);
      if (file->prefix_hash() != left->prefix_hash || hash.hex() != left->tail_hash) return nullptr;
      *tail = hash;
      *first = left->tensors;
      return file;
    } catch (const Failure&) {  // gone, or shorter after a power failure: from the start
      return nullptr;
    }
  }

  Outcome convert_shard(uint32_t shard) {
    const std::string& name = model_.shard_name(shard);
    const ShardLayout layout(plan_, model_, shard);
    Sha256 tail;
    uint32_t first = 0;
    std::unique_ptr<OutputFile> file = continue_shard(layout, shard, &tail, &first);
    if (!file) {
      file = std::make_unique<OutputFile>(target_.in_work(name), target_.part_path(),
                                          layout.file_bytes());
      std::string head;
      layout.write_header([&](std::string_view piece) {
        head += piece;
        if (head.size() < size_t{kPiece}) return;
        file->append(head);
        head.clear();
      });
      file->append(head);
    }
    count_tensors(shard, first);

    StripSchedule schedule(plan_, model_, layout, shard, first, budget_.strip_elements, &groups_,
                           [&](const TensorPlan& tensor) { return read_scales(tensor); });
    bool stopped = false;
    Pipeline<Strip>::Stages stages;
    stages.read = [&](Strip* strip) {
      if (!schedule.next(&strip->task)) return false;
      shards_.acquire(strip->task.source_place().shard);
      work_.read(strip);
      return true;
    };
    stages.work = [&](Strip* strip) { work_.cast(strip, [&] { return pipeline_.is_stopping(); }); };
    stages.write = [&](Strip* strip) {
      write(layout, *strip, file.get());
      done_bytes_ += strip->task.source_bytes;
      if (strip->task.ends_tensor) end_tensor(layout, name, strip->task.tensor, &tail, file.get());
      listener_.progress(done_bytes_, plan_.source_bytes);
      stopped = listener_.should_stop();
      return !stopped;
    };
    pipeline_.run(stages);
    shards_.release_all();
    if (stopped) {
      file->flush();
      journal_->flush();
      return Outcome::stopped;
    }
    file->append_from_file(layout.file_bytes());
    finish_file(file.get(), name);
    return Outcome::done;
  }

  static void put(const ShardLayout& layout, int64_t to, const void* data, int64_t bytes,
                  OutputFile* file) {
    if (to == file->cursor() && to < layout.tail_begin()) {
      file->append(data, bytes);
    } else {
      file->write(to, data, bytes);
    }
  }

  void write(const ShardLayout& layout, const Strip& strip, OutputFile* file) const {
    const Task& task = strip.task;
    switch (task.kind) {
      case TaskKind::measure:
        return;
      case TaskKind::copy:
        return put(layout, task.to, strip.in.data(), task.bytes, file);
      case TaskKind::widen_scales:
        return put(layout, task.to, strip.scales.data(), task.bytes * 4, file);
      case TaskKind::dequantize:
        return put(layout, task.to, strip.work.data(), task.bytes, file);
      case TaskKind::cast:
        break;
    }
    const Weight& weight = *task.weight;
    const int64_t columns = weight.part.columns;
    if (task.columns == columns) {
      put(layout, weight.codes.begin + task.row * columns, strip.codes.data(), task.rows * columns,
          file);
    } else {
      for (int64_t r = 0; r < task.rows; ++r) {
        put(layout, weight.codes.begin + (task.row + r) * columns + task.column,
            strip.codes.data() + r * task.columns, task.columns, file);
      }
    }
    write_scales(strip, file);
  }

  void write_scales(const Strip& strip, OutputFile* file) const {
    const Task& task = strip.task;
    const Weight& weight = *task.weight;
    const int64_t element = bits_per_element(scale_type(plan_, weight.stored)) / 8;
    switch (plan_.request.scheme) {
      case Scheme::fp8_tensor:
        if (task.row == 0 && task.column == 0) {
          file->write(weight.scales.begin, strip.scales.data(), element);
        }
        return;
      case Scheme::fp8_dynamic:
        // A long row comes in several strips with the same scale.
        if (task.column == 0) {
          file->write(weight.scales.begin + task.row * element, strip.scales.data(),
                      task.rows * element);
        }
        return;
      case Scheme::fp8_block:
        break;
    }
    const int64_t across = scale_shape(plan_, weight.part.rows, weight.part.columns)[1];
    const std::vector<int64_t> shape = scale_shape(plan_, task.rows, task.columns);
    for (int64_t r = 0; r < shape[0]; ++r) {
      const int64_t at =
          (task.row / plan_.block_rows + r) * across + task.column / plan_.block_columns;
      file->write(weight.scales.begin + at * element, strip.scales.data() + r * shape[1] * element,
                  shape[1] * element);
    }
  }

  void end_tensor(const ShardLayout& layout, const std::string& name, uint32_t tensor, Sha256* tail,
                  OutputFile* file) {
    file->append_from_file(ordered_end(layout, tensor, file->cursor()));
    hash_tail(layout, *file, tensor, tail);
    journal_->add(
        UnfinishedFile{name, tensor + 1, file->cursor(), file->prefix_hash(), tail->hex()});
  }

  std::vector<float> read_scales(const TensorPlan& weight) {
    const std::string_view name = model_.entry(weight.source).name;
    const auto scale = find_scale(model_, name);
    if (!scale) refuse_input("tensor {}: its scales are gone", shown(name));  // the plan had them
    return widened_scales(model_.entry(scale->place), shards_.acquire(scale->place.shard));
  }

  void copy_side_file(const std::string& from, const std::string& to) {
    if (is_finished(to)) return;
    const PlainFile in(model_.file_path(from));
    OutputFile file(target_.in_work(to), target_.part_path(), in.bytes());
    std::vector<std::byte> piece(kPiece);
    for (int64_t at = 0; at < in.bytes(); at += kPiece) {
      const int64_t count = std::min(kPiece, in.bytes() - at);
      in.read(at, count, piece.data());
      file.append(piece.data(), count);
    }
    finish_file(&file, to);
  }

  using Sink = std::function<void(std::string_view)>;
  // A small file of the output: `write` gives its text in pieces, each time the same.
  struct Text {
    std::string name;
    std::function<void(const Sink&)> write;
  };

  static Text text_of(const std::string& name, std::string text) {
    return {name, [text = std::move(text)](const Sink& sink) { sink(text); }};
  }

  static FinishedFile described(const Text& text) {
    FinishedFile out{text.name, 0, {}};
    Sha256 hash;
    text.write([&](std::string_view piece) {
      hash.update(piece.data(), piece.size());
      out.bytes += static_cast<int64_t>(piece.size());
    });
    out.sha256 = hash.hex();
    return out;
  }

  void write_text(const Text& text) {
    OutputFile file(target_.in_work(text.name), target_.part_path(), 0);
    text.write([&](std::string_view piece) { file.append(piece); });
    const int64_t bytes = file.cursor();
    const std::string hash = file.finish();
    listener_.finished(text.name, bytes, hash);
  }

  void write_texts() {
    const Text config = text_of(kConfigName, config_text(model_, plan_));
    const Text index = {model_.index_name(),
                        [this](const Sink& sink) { write_index(model_, plan_, sink); }};
    finished_.push_back(described(config));
    if (model_.has_index()) finished_.push_back(described(index));
    if (writes_card()) {
      const Text card = text_of(kCardName, model_card(model_, plan_));
      finished_.push_back(described(card));
      write_text(card);
    }
    write_text(text_of(kRecordName, record_text(model_, plan_, finished_)));
    if (model_.has_index()) write_text(index);
    write_text(config);
  }

  static constexpr int64_t kPiece = 1 << 20;

  Model& model_;
  const Plan& plan_;
  const ConvertRequest& request_;
  Listener& listener_;
  TargetFolder target_;
  OpenShards shards_;
  StripWork work_;
  MemoryBudget budget_;
  Pipeline<Strip> pipeline_;
  std::unique_ptr<Journal> journal_;
  std::vector<FinishedFile> finished_;
  GroupAmaxes groups_;
  int64_t done_bytes_ = 0;
};

}  // namespace

Outcome convert(Model* model, const Plan& plan, const ConvertRequest& request, Listener* listener) {
  Converter converter(model, plan, request, listener);
  try {
    return converter.run();
  } catch (const Failure& failure) {
    if (failure.kind() == FailureKind::data) converter.discard();
    throw;
  }
}

void check_target(const Model& model, const Plan& plan, const ConvertRequest& request) {
  const TargetFolder target(model, request);
  target.require_names(output_names(model, request.card));
  require_budget(model, plan, request);
  // What cannot be written is refused here, not behind the last shard.
  config_text(model, plan);
  if (request.card == Card::write) model_card(model, plan);
  int64_t headers = 0;
  for (uint32_t shard = 0; shard < model.shards().size(); ++shard) {
    headers += ShardLayout(plan, model, shard).header_bytes();
  }
  const int64_t planned = plan.output_bytes + plan.side_bytes + headers;
  const int64_t room = target.free_bytes() + target.used_bytes();
  if (planned <= room) return;
  throw Failure(FailureKind::output,
                fmt::format("{}: expected room for {} bytes, got {}", request.out, planned, room));
}

}  // namespace rowscale::checkpoint
