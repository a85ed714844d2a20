// The parts of a row one after the other: together they read each element of x once.
#include "cpu/operators.hpp"

namespace rowscale::cpu {

Status mla_norm_quantize(const plan::Mla& mla, const Exec& exec) {
  const MlaOutputs& out = mla.outputs;
  Status status = quantize(mla.q_source(), mla.q_recipe, out.q_codes, out.q_scales, exec);
  if (!status.ok()) return status;
  status = mla.has_kv_codes()
               ? quantize(mla.kv_source(), mla.kv_recipe, out.kv_codes, out.kv_scales, exec)
               : store_rows(mla.kv_source(), out.kv, exec);
  if (!status.ok() || !mla.has_rope()) return status;
  return store_rows(mla.rope_source(), out.rope, exec);
}

}  // namespace rowscale::cpu
