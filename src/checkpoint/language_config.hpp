// Where multimodal models keep the configuration of their language model.
#pragma once

namespace rowscale::checkpoint {

inline constexpr const char* kLanguageConfigs[] = {"text_config", "llm_config", "language_config"};

}  // namespace rowscale::checkpoint
