#include "cuda/matmul/cublaslt_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/context.hpp"

namespace rowscale::cuda {
namespace {

constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
// From the folder of libtorch, site-packages/torch/lib.
constexpr const char* kPackages[] = {"/../../nvidia/cu13/lib/", "/../../nvidia/cublas/lib/"};
constexpr int kMostDevices = 64;

std::string version_text(size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string last_error() {
  const char* text = dlerror();
  return text == nullptr ? "not found" : text;
}

// A function to be found by its name.
struct Function {
  template <class F>
  Function(F** to, const char* called) : slot(reinterpret_cast<void**>(to)), name(called) {}
  void** slot;
  const char* name;
};

// The first that is not there, or nullptr.
const char* find_functions(void* module, CublasLt* library) {
  const Function functions[] = {
      {&library->get_version, "cublasLtGetVersion"},
      {&library->status_name, "cublasLtGetStatusName"},
      {&library->create, "cublasLtCreate"},
      {&library->matmul, "cublasLtMatmul"},
      {&library->init_product, "cublasLtMatmulDescInit_internal"},
      {&library->set_product, "cublasLtMatmulDescSetAttribute"},
      {&library->init_layout, "cublasLtMatrixLayoutInit_internal"},
      {&library->init_preference, "cublasLtMatmulPreferenceInit_internal"},
      {&library->set_preference, "cublasLtMatmulPreferenceSetAttribute"},
      {&library->find_algorithms, "cublasLtMatmulAlgoGetHeuristic"},
      {&library->check_algorithm, "cublasLtMatmulAlgoCheck"},
      {&library->get_config, "cublasLtMatmulAlgoConfigGetAttribute"},
  };
  for (const Function& function : functions) {
    *function.slot = dlsym(module, function.name);
    if (*function.slot == nullptr) return function.name;
  }
  return nullptr;
}

// Why a module is none that serves; empty where it does.
std::string take(void* module, const char* name, CublasLt* library) {
  if (const char* missing = find_functions(module, library); missing != nullptr) {
    return fmt::format("{}: has no function {}", name, missing);
  }
  Dl_info info = {};
  const auto* address = reinterpret_cast<const void*>(library->get_version);
  library->file = dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : name;
  library->version = library->get_version();
  if (library->version >= kOldestCublasLt) return {};
  return fmt::format("{}: expected version {} or newer, got {}", library->file,
                     version_text(kOldestCublasLt), version_text(library->version));
}

enum class Where { anywhere, loaded };

class Search {
 public:
  // True where the search is over. A name that the process has not loaded is no news.
  bool try_file(const std::string& name, Where where) {
    const int mode = RTLD_NOW | RTLD_LOCAL | (where == Where::loaded ? RTLD_NOLOAD : 0);
    void* module = dlopen(name.c_str(), mode);
    if (module == nullptr) {
      if (where == Where::anywhere) add(last_error());
      return false;
    }
    auto library = std::make_unique<CublasLt>();
    std::string wrong = take(module, name.c_str(), library.get());
    if (!wrong.empty()) {
      add(wrong);
      dlclose(module);
      return false;
    }
    found_.library = std::move(library);
    found_.refusal.clear();
    return true;
  }
  CublasLtSearch take_found() { return std::move(found_); }

 private:
  void add(const std::string& wrong) {
    found_.refusal += (found_.refusal.empty() ? "" : "; ") + wrong;
  }
  CublasLtSearch found_;
};

// Folders of the libtorch libraries of this process.
std::vector<std::string> torch_folders() {
  std::vector<std::string> folders;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t /*size*/, void* data) {
        const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        const size_t slash = path.rfind('/');
        if (slash == std::string_view::npos) return 0;
        if (path.substr(slash + 1).substr(0, 8) == "libtorch") {
          static_cast<std::vector<std::string>*>(data)->emplace_back(path.substr(0, slash));
        }
        return 0;
      },
      &folders);
  return folders;
}

}  // namespace

std::string to_string(const CublasLt& library) {
  return fmt::format("cuBLASLt {} ({})", version_text(library.version), library.file);
}

CublasLtSearch find_cublaslt(const char* forced) {
  Search search;
  if (forced != nullptr) {
    search.try_file(forced, Where::anywhere);
    return search.take_found();
  }
  for (const char* name : kNames) {
    if (search.try_file(name, Where::loaded)) return search.take_found();
  }
  for (const std::string& folder : torch_folders()) {
    for (const char* package : kPackages) {
      for (const char* name : kNames) {
        if (search.try_file(folder + package + name, Where::anywhere)) return search.take_found();
      }
    }
  }
  for (const char* name : kNames) {
    if (search.try_file(name, Where::anywhere)) break;
  }
  return search.take_found();
}

const CublasLt* cublaslt(std::string* refusal) {
  static const CublasLtSearch found = [] {
    const char* forced = std::getenv("ROWSCALE_CUBLASLT");
    CublasLtSearch search = find_cublaslt(forced);
    if (search.library == nullptr) {
      search.refusal = fmt::format("cuBLASLt {} or newer: {}{}", version_text(kOldestCublasLt),
                                   forced == nullptr ? "" : "ROWSCALE_CUBLASLT: ", search.refusal);
    }
    return search;
  }();
  if (found.library == nullptr) *refusal = found.refusal;
  return found.library.get();
}

Status status_of(const CublasLt& library, cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return {StatusCode::device_error, fmt::format("{}: {}", what, library.status_name(status))};
}

Status cublaslt_handle(const CublasLt& library, int device, cublasLtHandle_t* handle) {
  static std::mutex mutex;
  static std::array<cublasLtHandle_t, kMostDevices> handles = {};
  if (device < 0 || device >= kMostDevices) {
    return {StatusCode::unsupported,
            fmt::format("device: expected an index below {}, got cuda:{}", kMostDevices, device)};
  }
  const std::lock_guard<std::mutex> lock(mutex);
  cublasLtHandle_t& known = handles[static_cast<size_t>(device)];
  if (known == nullptr) {
    const ScopedDevice current(device);
    if (!current.status().ok()) return current.status();
    if (Status status = status_of(library, library.create(&known), "cublasLtCreate");
        !status.ok()) {
      return status;
    }
  }
  *handle = known;
  return {};
}

}  // namespace rowscale::cuda
