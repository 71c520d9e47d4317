// Name spaces, templates, lambdas, local classes, exceptions.
#include <cstddef>
#include <stdexcept>
#include <vector>

namespace ropes {
namespace {
volatile long weight;

template <typename T> __attribute__((noinline)) T heaviest(const std::vector<T> &all)
{
	T most = T();
	for (const T &one : all)
		if (one > most)
			most = one;
	return most;
}
}

class Car {
public:
	explicit Car(long load) : load_(load) {}
	virtual ~Car() { weight = weight - load_; }
	__attribute__((noinline)) long climb(int steps) const
	{
		struct Local {
			static __attribute__((noinline)) long step(long load) { return load + weight; }
		};
		long sum = 0;
		for (int i = 0; i < steps; i++)
			sum += Local::step(load_);
		return sum;
	}
	long operator+(const Car &other) const { return load_ + other.load_; }

private:
	long load_;
};
}

extern "C" __attribute__((visibility("default"))) long entry(long n)
{
	std::vector<long> loads;
	auto add = [&loads](long load) __attribute__((noinline)) { loads.push_back(load); };
	for (long i = 0; i < n; i++)
		add(i);
	ropes::Car car(n), other(n + 1);
	try {
		if (n > 1000)
			throw std::runtime_error("too heavy");
		return ropes::heaviest(loads) + car.climb(3) + (car + other);
	} catch (const std::exception &) {
		return -1;
	}
}
