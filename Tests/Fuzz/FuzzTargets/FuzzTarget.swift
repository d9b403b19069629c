import Foundation

/// A part of the program that reads bytes which anyone may have written, and what has to hold of it for any bytes.
package struct FuzzTarget: Sendable {
    package let name: String
    private let body: @Sendable ([UInt8]) throws -> Void

    /// - Parameter body: Reads an input. Its errors are right answers to bad bytes, except ``FuzzViolation``.
    init(_ name: String, _ body: @escaping @Sendable ([UInt8]) throws -> Void) {
        self.name = name
        self.body = body
    }

    /// Reads an input. Ends the process where something does not hold, so that libFuzzer keeps the input.
    package func run(_ input: [UInt8]) {
        if let violation = violation(of: input) { fatalError("fuzz: \(name): \(violation.property)") }
    }

    /// The rule that an input breaks; nil if it breaks none.
    package func violation(of input: [UInt8]) -> FuzzViolation? {
        do {
            try body(input)
            return nil
        } catch {
            return error as? FuzzViolation
        }
    }

    /// All targets, in the order of the layers.
    package static let all = readers + syncReaders + [pages, log, tree]

    /// The one that `FUZZ_TARGET` in the environment names.
    package static let current: FuzzTarget = {
        let name = ProcessInfo.processInfo.environment["FUZZ_TARGET"] ?? ""
        guard let target = all.first(where: { $0.name == name }) else {
            fatalError("FUZZ_TARGET must be one of: \(all.map(\.name).joined(separator: ", "))")
        }
        return target
    }()
}

/// A property that does not hold for an input.
package struct FuzzViolation: Error, Hashable {
    package let property: String
}

func check(_ holds: Bool, _ property: @autoclosure () -> String) throws {
    guard holds else { throw FuzzViolation(property: property()) }
}

/// Takes an input apart, from its beginning. Behind its end there are zeros.
struct FuzzInput {
    private var bytes: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { self.bytes = bytes[...] }

    var isAtEnd: Bool { bytes.isEmpty }

    mutating func byte() -> Int { Int(bytes.popFirst() ?? 0) }

    mutating func number() -> Int { byte() << 8 | byte() }
}
