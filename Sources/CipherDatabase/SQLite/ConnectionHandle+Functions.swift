import CSQLCipher
import Foundation

extension ConnectionHandle {
    // MARK: Functions

    /// Adds a function. It replaces an earlier one of this name and number of arguments.
    ///
    /// SQLite keeps the definition alive until the function is removed or replaced, or the connection is gone.
    /// - Parameter argumentCount: -1 for any number.
    func add(_ function: ScalarDefinition, name: String, argumentCount: CInt, use: FunctionUse) -> ResultCode {
        ResultCode(
            rawValue: sqlite3_create_function_v2(
                pointer, name, argumentCount, Self.functionFlags(use), retained(function), callScalar, nil, nil,
                release))
    }

    /// Adds an aggregate; otherwise as for functions.
    func add(_ aggregate: AggregateDefinition, name: String, argumentCount: CInt, use: FunctionUse) -> ResultCode {
        ResultCode(
            rawValue: sqlite3_create_function_v2(
                pointer, name, argumentCount, Self.functionFlags(use), retained(aggregate), nil, stepAggregate,
                finishAggregate, release))
    }

    /// Removes a function or an aggregate. SQLite's own one of the same name is available again on connections opened
    /// later.
    func removeFunction(name: String, argumentCount: CInt) -> ResultCode {
        ResultCode(
            rawValue: sqlite3_create_function_v2(
                pointer, name, argumentCount, SQLITE_UTF8, nil, nil, nil, nil, nil))
    }

    private static func functionFlags(_ use: FunctionUse) -> CInt {
        var flags = SQLITE_UTF8
        if use.isPure { flags |= SQLITE_DETERMINISTIC }
        if use.isDirectOnly {
            flags |= SQLITE_DIRECTONLY
        } else if use.isPure {
            // It has no effects, so that the schema of another program may call it.
            flags |= SQLITE_INNOCUOUS
        }
        return flags
    }

    // MARK: Collations

    /// Adds a collation. It replaces an earlier one of this name.
    func add(_ collation: CollationDefinition, name: String) -> ResultCode {
        let context = retained(collation)
        let code = sqlite3_create_collation_v2(pointer, name, SQLITE_UTF8, context, compareTexts, release)
        // Unlike a refused function, a refused collation is left to the caller.
        if code != SQLITE_OK { release(context) }
        return ResultCode(rawValue: code)
    }

    func removeCollation(name: String) -> ResultCode {
        ResultCode(rawValue: sqlite3_create_collation_v2(pointer, name, SQLITE_UTF8, nil, nil, nil))
    }

    private func retained(_ definition: AnyObject) -> UnsafeMutableRawPointer {
        Unmanaged<AnyObject>.passRetained(definition).toOpaque()
    }
}

// MARK: - Objects that SQLite keeps

/// Where a function may be called.
/// - SeeAlso: <https://www.sqlite.org/c3ref/c_deterministic.html>
struct FunctionUse: Sendable {
    /// Whether its result depends on the arguments alone.
    let isPure: Bool
    /// Whether no trigger, view or definition of a table may call it.
    let isDirectOnly: Bool
}

/// The implementation of a function.
final class ScalarDefinition: Sendable {
    typealias Body = @Sendable ([DatabaseValue]) throws -> (any DatabaseValueConvertible)?
    let body: Body
    init(_ body: @escaping Body) { self.body = body }
}

/// The implementation of an aggregate.
final class AggregateDefinition: Sendable {
    let begin: @Sendable () -> any DatabaseAggregate
    init(_ begin: @escaping @Sendable () -> any DatabaseAggregate) { self.begin = begin }
}

/// The implementation of a collation.
final class CollationDefinition: Sendable {
    let compare: @Sendable (String, String) -> ComparisonResult
    init(_ compare: @escaping @Sendable (String, String) -> ComparisonResult) { self.compare = compare }
}

/// An aggregate under way.
private final class RunningAggregate {
    var aggregate: any DatabaseAggregate
    /// Whether a step failed; SQLite finishes the aggregate nevertheless.
    var hasFailed = false
    init(_ aggregate: any DatabaseAggregate) { self.aggregate = aggregate }
}

// MARK: - Called by SQLite

private func release(_ definition: UnsafeMutableRawPointer?) {
    if let definition { Unmanaged<AnyObject>.fromOpaque(definition).release() }
}

private func callScalar(context: OpaquePointer?, count: CInt, values: UnsafeMutablePointer<OpaquePointer?>?) {
    guard let context = context.map(FunctionContext.init),
        let definition = context.definition(as: ScalarDefinition.self)
    else { return }
    do {
        try context.setResult(definition.body(DatabaseValue.arguments(count, values))?.databaseValue ?? .null)
    } catch {
        context.setError(error)
    }
}

/// The aggregate of a call; created by its first call.
private func runningAggregate(in context: FunctionContext) -> RunningAggregate? {
    guard let state = context.aggregateState, let definition = context.definition(as: AggregateDefinition.self)
    else { return nil }
    if let running = state.pointee {
        return Unmanaged<RunningAggregate>.fromOpaque(running).takeUnretainedValue()
    }
    let running = RunningAggregate(definition.begin())
    state.pointee = Unmanaged.passRetained(running).toOpaque()
    return running
}

private func stepAggregate(context: OpaquePointer?, count: CInt, values: UnsafeMutablePointer<OpaquePointer?>?) {
    guard let context = context.map(FunctionContext.init) else { return }
    guard let running = runningAggregate(in: context) else { return context.setOutOfMemory() }
    do {
        try running.aggregate.step(DatabaseValue.arguments(count, values))
    } catch {
        running.hasFailed = true
        context.setError(error)
    }
}

private func finishAggregate(context: OpaquePointer?) {
    guard let context = context.map(FunctionContext.init) else { return }
    guard let running = runningAggregate(in: context), let state = context.aggregateState else {
        return context.setOutOfMemory()
    }
    if let retained = state.pointee { Unmanaged<RunningAggregate>.fromOpaque(retained).release() }
    state.pointee = nil
    if running.hasFailed { return }
    do {
        try context.setResult(running.aggregate.finalize()?.databaseValue ?? .null)
    } catch {
        context.setError(error)
    }
}

private func compareTexts(
    context: UnsafeMutableRawPointer?, leftBytes: CInt, left: UnsafeRawPointer?, rightBytes: CInt,
    right: UnsafeRawPointer?
) -> CInt {
    guard let context else { return 0 }
    let definition = Unmanaged<CollationDefinition>.fromOpaque(context).takeUnretainedValue()
    // The texts are not NUL-terminated. Bytes that are not UTF-8 become replacement characters.
    let left = String(decoding: UnsafeRawBufferPointer(start: left, count: Int(leftBytes)), as: UTF8.self)
    let right = String(decoding: UnsafeRawBufferPointer(start: right, count: Int(rightBytes)), as: UTF8.self)
    return CInt(definition.compare(left, right).rawValue)
}
