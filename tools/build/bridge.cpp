// A Python callable over one bound function of an extension, for the calls that candidates make in their hot loop.
//
// Compiled once per Python and linked into every extension, because a call through ctypes takes some ten microseconds
// longer, which would be charged to a candidate whose kernel is short. It handles plain positional arguments; anything
// else (keywords, conversions, wrong types, strings, lists) goes to the Python fall-back in loader.py, which decides.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include <stitch_torch/call.h>

namespace {

using stitch_torch::Function;
using stitch_torch::Value;

constexpr size_t kMostArguments = 64;

// What the callables need of torch and the loader; set once by stitch_bridge.
struct Torch {
  PyTypeObject* tensor_type = nullptr;
  PyObject* handles_of = nullptr;  // torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors
  PyObject* tensor_of = nullptr;   // torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr
  PyObject* out_of_memory = nullptr;
} torch_;

struct Callable {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  const Function* function;
  std::string* codes;
  PyObject* fallback;
  PyObject* dict;
};

PyObject* unpack(const Value*& at) {
  const Value& head = *at++;
  switch (head.code) {
    case 'T': {
      PyObject* capsule = PyCapsule_New(head.pointer, nullptr, nullptr);
      if (capsule == nullptr) return nullptr;
      PyObject* tensor = PyObject_CallOneArg(torch_.tensor_of, capsule);
      Py_DECREF(capsule);
      return tensor;
    }
    case 'i': return PyLong_FromLongLong(head.integer);
    case 'b': return PyBool_FromLong(head.integer != 0);
    case 'd': return PyFloat_FromDouble(head.real);
    case 's': {
      PyObject* text = PyUnicode_DecodeUTF8(static_cast<const char*>(head.pointer), head.count, nullptr);
      std::free(head.pointer);
      return text;
    }
    case '(':
    case '[': {
      PyObject* items = head.code == '(' ? PyTuple_New(head.count) : PyList_New(head.count);
      for (int64_t i = 0; items != nullptr && i < head.count; ++i) {
        PyObject* item = unpack(at);
        if (item == nullptr) {
          Py_DECREF(items);
          return nullptr;
        }
        if (head.code == '(') {
          PyTuple_SET_ITEM(items, i, item);
        } else {
          PyList_SET_ITEM(items, i, item);
        }
      }
      return items;
    }
    default: Py_RETURN_NONE;
  }
}

PyObject* raised(int status, char* text) {
  PyObject* kinds[] = {PyExc_RuntimeError, PyExc_RuntimeError,        PyExc_ValueError,    PyExc_IndexError,
                       PyExc_TypeError,    PyExc_NotImplementedError, torch_.out_of_memory};
  PyErr_SetString(kinds[status < 7 ? status : 1], text != nullptr ? text : "unknown error");
  std::free(text);
  return nullptr;
}

// Fills `values`; false when the fall-back has to look at the arguments. Tensors only get their code here.
bool plain(const std::string& codes, PyObject* const* args, Value* values, size_t& tensors) {
  for (size_t i = 0; i < codes.size(); ++i) {
    PyObject* arg = args[i];
    Value& value = values[i];
    value.code = codes[i];
    switch (codes[i]) {
      case 'O':
        if (arg == Py_None) {
          value.code = 'N';
          break;
        }
        [[fallthrough]];
      case 'T':
        if (!PyObject_TypeCheck(arg, torch_.tensor_type)) return false;
        value.code = 'T';
        ++tensors;
        break;
      case 'i': {
        if (!PyLong_CheckExact(arg)) return false;
        int overflow = 0;
        value.integer = PyLong_AsLongLongAndOverflow(arg, &overflow);
        if (overflow != 0) return false;
        break;
      }
      case 'd':
        if (PyFloat_CheckExact(arg)) {
          value.real = PyFloat_AS_DOUBLE(arg);
        } else {
          return false;
        }
        break;
      case 'b':
        if (!PyBool_Check(arg)) return false;
        value.integer = arg == Py_True;
        break;
      default: return false;
    }
  }
  return true;
}

PyObject* call(PyObject* self_object, PyObject* const* args, size_t flags, PyObject* names) {
  auto* self = reinterpret_cast<Callable*>(self_object);
  const std::string& codes = *self->codes;
  const size_t count = static_cast<size_t>(PyVectorcall_NARGS(flags));
  Value values[kMostArguments];
  size_t tensors = 0;
  const bool simple = (names == nullptr || PyTuple_GET_SIZE(names) == 0) && count == codes.size() &&
                      plain(codes, args, values, tensors);
  if (!simple) return PyObject_Vectorcall(self->fallback, args, flags, names);
  if (tensors > 0) {
    PyObject* list = PyList_New(static_cast<Py_ssize_t>(tensors));
    if (list == nullptr) return nullptr;
    for (size_t i = 0, at = 0; i < count; ++i) {
      if (values[i].code != 'T') continue;
      Py_INCREF(args[i]);
      PyList_SET_ITEM(list, static_cast<Py_ssize_t>(at++), args[i]);
    }
    PyObject* capsules = PyObject_CallOneArg(torch_.handles_of, list);
    Py_DECREF(list);
    if (capsules == nullptr) return nullptr;
    for (size_t i = 0, at = 0; i < count; ++i) {
      if (values[i].code != 'T') continue;
      values[i].pointer = PyCapsule_GetPointer(PyList_GET_ITEM(capsules, static_cast<Py_ssize_t>(at++)), nullptr);
    }
    Py_DECREF(capsules);
  }
  Value* results = nullptr;
  int64_t result_count = 0;
  char* error = nullptr;
  const int status = self->function->entry(self->function, values, &results, &result_count, &error);
  if (status != 0) {
    for (size_t i = 0; i < count; ++i)
      if (values[i].code == 'T' && values[i].pointer != nullptr) {
        const Value left = values[i];
        const Value* at = &left;
        Py_XDECREF(unpack(at));  // gives the handle back to torch, which frees it
      }
    return raised(status, error);
  }
  const Value* at = results;
  PyObject* result = unpack(at);
  std::free(results);
  return result;
}

void release(PyObject* self_object) {
  auto* self = reinterpret_cast<Callable*>(self_object);
  delete self->codes;
  Py_XDECREF(self->fallback);
  Py_XDECREF(self->dict);
  PyTypeObject* type = Py_TYPE(self_object);
  PyObject_Free(self_object);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Callable, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Callable, dict), READONLY, nullptr},
    {"__wrapped__", T_OBJECT, offsetof(Callable, fallback), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyGetSetDef getters[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(release)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, members},
    {Py_tp_getset, getters},
    {0, nullptr},
};
PyType_Spec type_spec = {"stitchcuda.function", sizeof(Callable), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

// A new callable for the function at `address`; None when its signature is only for the fall-back.
extern "C" __attribute__((visibility("default"))) PyObject* stitch_bridge(size_t address, PyObject* fallback,
                                                                          PyObject* tensor_type, PyObject* handles_of,
                                                                          PyObject* tensor_of,
                                                                          PyObject* out_of_memory) {
  static PyObject* type = nullptr;
  if (type == nullptr) {
    type = PyType_FromSpec(&type_spec);
    if (type == nullptr) return nullptr;
    Py_INCREF(tensor_type);
    Py_INCREF(handles_of);
    Py_INCREF(tensor_of);
    Py_INCREF(out_of_memory);
    torch_ = {reinterpret_cast<PyTypeObject*>(tensor_type), handles_of, tensor_of, out_of_memory};
  }
  const auto* function = reinterpret_cast<const Function*>(address);
  const char* end = std::strchr(function->signature, '>');
  std::string codes(function->signature, end);
  if (codes.size() > kMostArguments || codes.find_first_not_of("TOidb") != std::string::npos) Py_RETURN_NONE;
  auto* self = PyObject_New(Callable, reinterpret_cast<PyTypeObject*>(type));
  if (self == nullptr) return nullptr;
  self->vectorcall = call;
  self->function = function;
  self->codes = new std::string(std::move(codes));
  Py_INCREF(fallback);
  self->fallback = fallback;
  self->dict = nullptr;
  return reinterpret_cast<PyObject*>(self);
}
