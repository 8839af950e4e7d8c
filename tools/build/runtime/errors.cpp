// Messages, exceptions, and what is said when torch refuses a call.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include <stitch_torch/scalar_type.h>
#include <stitch_torch/array_ref.h>

#include "failure.h"

namespace c10 {

Error::Error(const char* text) : text_(strdup(text)) {}
Error::Error(const Error& other) : std::exception(other), text_(strdup(other.text_)) {}
Error::~Error() { std::free(text_); }

const char* toString(ScalarType type) {
  switch (type) {
    case ScalarType::Byte: return "Byte";
    case ScalarType::Char: return "Char";
    case ScalarType::Short: return "Short";
    case ScalarType::Int: return "Int";
    case ScalarType::Long: return "Long";
    case ScalarType::Half: return "Half";
    case ScalarType::Float: return "Float";
    case ScalarType::Double: return "Double";
    case ScalarType::ComplexHalf: return "ComplexHalf";
    case ScalarType::ComplexFloat: return "ComplexFloat";
    case ScalarType::ComplexDouble: return "ComplexDouble";
    case ScalarType::Bool: return "Bool";
    case ScalarType::BFloat16: return "BFloat16";
    case ScalarType::Float8_e5m2: return "Float8_e5m2";
    case ScalarType::Float8_e4m3fn: return "Float8_e4m3fn";
    case ScalarType::UInt16: return "UInt16";
    case ScalarType::UInt32: return "UInt32";
    case ScalarType::UInt64: return "UInt64";
    default: return "UNKNOWN_SCALAR";
  }
}
size_t elementSize(ScalarType type) {
  switch (type) {
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Bool:
    case ScalarType::Float8_e5m2:
    case ScalarType::Float8_e4m3fn: return 1;
    case ScalarType::Short:
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::UInt16: return 2;
    case ScalarType::Int:
    case ScalarType::Float:
    case ScalarType::ComplexHalf:
    case ScalarType::UInt32: return 4;
    case ScalarType::ComplexDouble: return 16;
    default: return 8;
  }
}

static DeviceType device_type_of(const std::string& text) {
  const std::string kind = text.substr(0, text.find(':'));
  TORCH_CHECK(kind == "cpu" || kind == "cuda", "Invalid device string: '", text, "'");
  return kind == "cuda" ? DeviceType::CUDA : DeviceType::CPU;
}
static DeviceIndex device_index_of(const std::string& text) {
  const size_t colon = text.find(':');
  return colon == std::string::npos ? DeviceIndex{-1} : static_cast<DeviceIndex>(std::atoi(text.c_str() + colon + 1));
}
Device::Device(const char* text) : Device(device_type_of(text), device_index_of(text)) {}

namespace stitch_detail {
namespace {
const char* name_of(DeviceType type) {
  return type == DeviceType::CPU ? "cpu" : type == DeviceType::CUDA ? "cuda" : "meta";
}
template <class T>
void write_row(std::ostream& out, const Piece& piece) {
  const T* values = static_cast<const T*>(piece.pointer);
  out << '[';
  for (int64_t i = 0; i < piece.count; ++i) out << (i != 0 ? ", " : "") << values[i];
  out << ']';
}
void write(std::ostream& out, const Piece& piece) {
  switch (piece.kind) {
    case Piece::Kind::text: {
      const char* text = static_cast<const char*>(piece.pointer);
      out.write(text, piece.count < 0 ? static_cast<std::streamsize>(std::strlen(text)) : piece.count);
      break;
    }
    case Piece::Kind::whole: out << piece.whole; break;
    case Piece::Kind::natural: out << piece.natural; break;
    case Piece::Kind::real: out << piece.real; break;
    case Piece::Kind::letter: out << static_cast<char>(piece.whole); break;
    case Piece::Kind::pointer: out << piece.pointer; break;
    case Piece::Kind::type: out << toString(static_cast<ScalarType>(piece.whole)); break;
    case Piece::Kind::device_type: out << name_of(static_cast<DeviceType>(piece.whole)); break;
    case Piece::Kind::device: {
      const Device& device = *static_cast<const Device*>(piece.pointer);
      out << name_of(device.type());
      if (device.has_index()) out << ':' << static_cast<int>(device.index());
      break;
    }
    case Piece::Kind::sizes: write_row<int64_t>(out, piece); break;
    case Piece::Kind::reals: write_row<double>(out, piece); break;
    case Piece::Kind::stream: piece.writer(&out, piece.pointer); break;
  }
}
std::string text_of(const Piece* pieces, size_t count) {
  std::ostringstream out;
  for (size_t i = 0; i < count; ++i) write(out, pieces[i]);
  return out.str();
}
[[noreturn]] void raise_text(Raised kind, const char* text) {
  switch (kind) {
    case Raised::ValueError: throw ValueError(text);
    case Raised::IndexError: throw IndexError(text);
    case Raised::TypeError: throw TypeError(text);
    case Raised::NotImplementedError: throw NotImplementedError(text);
    case Raised::OutOfMemoryError: throw OutOfMemoryError(text);
    default: throw Error(text);
  }
}
}  // namespace

char* joined(const Piece* pieces, size_t count) { return strdup(text_of(pieces, count).c_str()); }
void raise(Raised kind, const char* otherwise, const Piece* pieces, size_t count) {
  raise_text(kind, count == 0 ? otherwise : text_of(pieces, count).c_str());
}

// torch 2.13 and newer keep the reason of a failure; older ones only print it.
static const char* kept_reason() {
  const char* reason =
      torch_exception_get_what_without_backtrace != nullptr ? torch_exception_get_what_without_backtrace() : nullptr;
  return reason != nullptr && *reason != '\0' ? reason : nullptr;
}
void refused(const char* what) {
  const char* reason = kept_reason();
  if (reason == nullptr)
    fail(Raised::Error, "", "torch refused ", what, "; it printed the reason on the standard error stream");
  const bool memory = std::strstr(reason, "out of memory") != nullptr;
  fail(memory ? Raised::OutOfMemoryError : Raised::Error, "", reason);
}

void refused_memory(int64_t wanted_bytes, const Device& device) {
  if (kept_reason() == nullptr && device.type() == DeviceType::CUDA && cudaMemGetInfo != nullptr) {
    // After a failed request torch holds no unused memory any more: what the driver calls free is all there was. What
    // is less than 32 MiB short may be lost to the driver's granularity.
    size_t free_bytes = 0, total_bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) == 0 &&
        static_cast<uint64_t>(wanted_bytes) + (uint64_t{32} << 20) > free_bytes)
      fail(Raised::OutOfMemoryError, "", "CUDA out of memory. Tried to allocate ", wanted_bytes, " bytes; ", free_bytes,
           " bytes are free of ", total_bytes);
  }
  if (kept_reason() == nullptr && device.type() == DeviceType::CPU)
    fail(Raised::Error, "", "can't allocate memory: you tried to allocate ", wanted_bytes, " bytes");
  refused("a new tensor");
}
}  // namespace stitch_detail
}  // namespace c10

namespace stitch_torch {
int caught(char** error) {
  try {
    throw;
  } catch (const std::exception& raised) {
    *error = strdup(raised.what());
    if (dynamic_cast<const c10::ValueError*>(&raised) != nullptr) return 2;
    if (dynamic_cast<const c10::IndexError*>(&raised) != nullptr) return 3;
    if (dynamic_cast<const c10::TypeError*>(&raised) != nullptr) return 4;
    if (dynamic_cast<const c10::NotImplementedError*>(&raised) != nullptr) return 5;
    if (dynamic_cast<const c10::OutOfMemoryError*>(&raised) != nullptr) return 6;
    return 1;
  } catch (...) {
    *error = strdup("an exception that is not a std::exception");
    return 1;
  }
}
}  // namespace stitch_torch
