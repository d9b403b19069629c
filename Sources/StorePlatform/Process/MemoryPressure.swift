/// The memory pressure of the machine, as Linux reports it.
/// - SeeAlso: <https://docs.kernel.org/accounting/psi.html>
package enum MemoryPressure {
    /// The kernel's file. Kernels without pressure stall information, and some containers, have none.
    package static let file = "/proc/pressure/memory"

    /// The share of the last ten seconds in which some task waited for memory, in percent; nil where the system does
    /// not report it.
    package static func current(in file: String = file) -> Double? {
        guard let bytes = try? Files.contents(of: file, limitBytes: 4096) else { return nil }
        // some avg10=0.00 avg60=0.00 avg300=0.00 total=0
        let words = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isWhitespace)
        guard words.first == "some", words.count > 1, words[1].hasPrefix("avg10=") else { return nil }
        return Double(words[1].dropFirst("avg10=".count))
    }
}
