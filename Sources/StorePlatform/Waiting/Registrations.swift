/// Values that are registered until they are removed or taken, such as the functions that an event calls once. The lock of
/// the owner guards them.
package struct Registrations<Value> {
    private var values: [Int: Value] = [:]
    private var lastTicket = 0

    package init() {}

    package var count: Int { values.count }

    /// Registers a value.
    ///
    /// - Returns: The number under which it is removed.
    package mutating func add(_ value: Value) -> Int {
        lastTicket += 1
        values[lastTicket] = value
        return lastTicket
    }

    /// Removes a value.
    ///
    /// - Returns: The value; nil when it was removed or taken before.
    @discardableResult
    package mutating func remove(_ ticket: Int) -> Value? { values.removeValue(forKey: ticket) }

    /// Removes all values, in the order of their registration.
    package mutating func takeAll() -> [Value] {
        defer { values.removeAll() }
        return values.sorted { $0.key < $1.key }.map(\.value)
    }
}
