/// The request of the command line.
struct BenchmarkOptions {
    /// How often each side of a comparison is measured.
    var runs = 15
    var takesProcessorTime = false
    /// Part of the names of the work to measure; empty for all.
    var only = ""
    var jsonFile: String?
    var reportFolder: String?
    var countsAllocations = false

    /// - Throws: ``BenchmarkError`` for what it does not know, and where a value is missing.
    init(_ arguments: some Sequence<String>) throws {
        var rest = arguments.makeIterator()
        func value(of option: String) throws -> String {
            // A word with dashes is the next option: a file of that name would be written by mistake.
            guard let value = rest.next(), !value.hasPrefix("--") else {
                throw BenchmarkError(description: "\(option) needs a value")
            }
            return value
        }
        while let option = rest.next() {
            switch option {
            case "--runs":
                guard let number = Int(try value(of: option)), number > 0 else {
                    throw BenchmarkError(description: "--runs needs a number above 0")
                }
                runs = number
            case "--cpu": takesProcessorTime = true
            case "--only": only = try value(of: option)
            case "--json": jsonFile = try value(of: option)
            case "--report": reportFolder = try value(of: option)
            case "--allocations": countsAllocations = true
            default: throw BenchmarkError(description: "unknown option: \(option)")
            }
        }
    }
}

/// The request of the command line for one mode of the program, as `--observation`: options with values, and flags.
struct ModeOptions {
    private var values: [String: String] = [:]
    private var flags: Set<String> = []

    /// - Parameters:
    ///   - mode: The flag that chooses the mode.
    ///   - names: The options that have a value.
    /// - Throws: ``BenchmarkError`` for what is unknown, and where a value is missing.
    init(_ arguments: [String], mode: String, names: [String], flags known: [String] = []) throws {
        var rest = arguments.dropFirst().makeIterator()
        while let option = rest.next() {
            if option == mode { continue }
            if known.contains(option) {
                flags.insert(option)
                continue
            }
            guard names.contains(option) else { throw BenchmarkError(description: "unknown option: \(option)") }
            guard let value = rest.next(), !value.hasPrefix("--") else {
                throw BenchmarkError(description: "\(option) needs a value")
            }
            values[option] = value
        }
    }

    subscript(name: String) -> String? { values[name] }

    func has(_ flag: String) -> Bool { flags.contains(flag) }

    /// The parts that `--parts` names, in their own order; all of them without it.
    func parts<Part: CaseIterable & RawRepresentable<String>>() throws -> [Part] {
        let names = values["--parts"]?.split(separator: ",").map(String.init)
        let unknown = Set(names ?? []).subtracting(Part.allCases.map(\.rawValue)).sorted()
        try BenchmarkError.require(unknown.isEmpty, "unknown parts: \(unknown.joined(separator: ", "))")
        return Part.allCases.filter { names?.contains($0.rawValue) ?? true }
    }
}
