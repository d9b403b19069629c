import StorePlatform

/// The two ways out: results on standard output, talk on standard error.
struct Console {
    let output = Output()
    /// Whether results and errors are JSON.
    let isJSON: Bool

    /// Prints lines that are no result: what goes on, what looked risky.
    func note(_ text: String) { Self.talk("cipherctl: note: \(text)\n") }

    func warn(_ text: String) { Self.talk("cipherctl: warning: \(text)\n") }

    /// Prints a result in the form asked for.
    ///
    /// - Parameters:
    ///   - json: The same as an object with stable names.
    ///   - lines: The result for people.
    func report(json: @autoclosure () -> JSON, lines: @autoclosure () -> [String]) throws {
        if isJSON {
            try output.line(json().text)
        } else {
            for line in lines() { try output.line(line) }
        }
    }

    /// Writes to standard error. There is nobody to tell when that fails.
    static func talk(_ text: String) {
        guard let stream = try? FileDescriptor(duplicating: 2, path: "standard error") else { return }
        try? stream.write(Array(text.utf8))
    }
}
