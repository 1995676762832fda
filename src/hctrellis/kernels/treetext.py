"""Trees in Newick text, as bytes: statements, labels, numbers, notes.

A tree that is read has nodes 0, 1, ... in the order in which they begin, the root first. Labels of
leaves are looked up in a table of names: `slots` (int64, a power of two in size) holds entries or
-1; entry e is the text names[ends[e] : ends[e + 1]] and stands for the leaf ids[e]; sizes[0] is the
number of entries.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.compile import inner, jit

OPEN, CLOSE, COMMA, COLON, SEMICOLON, QUOTE, LEFT, RIGHT, AND, EQUALS, BRACE, UNBRACE = (
    ord(sign) for sign in "(),:;'[]&={}"
)
MINUS, PLUS, DOT, ZERO, NINE = (ord(sign) for sign in "-+.09")
DONE, UNEXPECTED, UNCLOSED, UNKNOWN, REPEATED, LENGTH, TOO_MANY, LABEL = range(8)
"""What came of reading: all is well, or what is wrong."""
MOST_DIGITS = 18
NO_END = -1


@inner
def is_blank(c):
    return c == 32 or (9 <= c <= 13)


@inner
def is_mark(c):
    """Whether a character ends a word of Newick."""
    return c in (OPEN, CLOSE, COMMA, COLON, SEMICOLON, QUOTE, LEFT, RIGHT) or is_blank(c)


@inner
def skip_comment(text, start, stop):
    """The position after the comment that begins at `start`; comments nest. Or NO_END."""
    depth = 0
    for pos in range(start, stop):
        if text[pos] == LEFT:
            depth += 1
        elif text[pos] == RIGHT:
            depth -= 1
            if depth == 0:
                return pos + 1
    return NO_END


@inner
def skip_quoted(text, start, stop):
    """The position after the label in quotes that begins at `start`, or NO_END."""
    pos = start + 1
    while pos < stop:
        if text[pos] == QUOTE:
            if pos + 1 < stop and text[pos + 1] == QUOTE:
                pos += 1
            else:
                return pos + 1
        pos += 1
    return NO_END


@jit
def statement_end(text, start, stop):
    """The position after the ';' that ends a statement; and where what is never closed begins.

    Either is -1 if there is none: a quote or a comment that is not closed here may be closed in
    text that is still to come.
    """
    pos = start
    while pos < stop:
        c = text[pos]
        if c == SEMICOLON:
            return pos + 1, -1
        if c in (LEFT, QUOTE):
            end = skip_comment(text, pos, stop) if c == LEFT else skip_quoted(text, pos, stop)
            if end == NO_END:
                return -1, pos
            pos = end
        else:
            pos += 1
    return -1, -1


@jit
def find_mark(text, start, stop, mark):
    """The first place of a character outside quotes and comments, or `stop`."""
    pos = start
    while pos < stop:
        c = text[pos]
        if c == mark:
            return pos
        if c in (LEFT, QUOTE):
            end = skip_comment(text, pos, stop) if c == LEFT else skip_quoted(text, pos, stop)
            if end == NO_END:
                return stop
            pos = end
        else:
            pos += 1
    return stop


@inner
def power_of_ten(k):
    power = 1.0
    base = 10.0
    while k > 0:
        if k & 1:
            power *= base
        base *= base
        k >>= 1
    return power


@inner
def split_product(a, b):
    """a * b as a sum of two numbers, without error."""
    factor = 134217729.0
    product = a * b
    t = factor * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = factor * b
    b_high = t - (t - b)
    b_low = b - b_high
    rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, rest


@inner
def scaled(digits, power):
    """digits * 10^power, rounded once for powers down to -22 (and rarely otherwise off by 1)."""
    high = float(digits)
    low = float(np.int64(digits) - np.int64(high))
    while power < 0:
        step = min(-power, 22)
        divisor = power_of_ten(step)
        quotient = high / divisor
        product, rest = split_product(quotient, divisor)
        low = ((high - product) - rest + low) / divisor
        high = quotient + low
        low = low - (high - quotient)
        power += step
    while power > 0 and high < 1e300:
        step = min(power, 22)
        factor = power_of_ten(step)
        product, rest = split_product(high, factor)
        low = low * factor + rest
        high = product + low
        low = low - (high - product)
        power -= step
    return high if power == 0 else np.inf


@inner
def read_number(text, pos, stop):
    """A number and the position after it; NaN if there is none."""
    start = pos
    negative = False
    if pos < stop and (text[pos] == MINUS or text[pos] == PLUS):
        negative = text[pos] == MINUS
        pos += 1
    digits = np.int64(0)
    used = power = seen = 0
    dot = False
    while pos < stop:
        c = text[pos]
        if ZERO <= c <= NINE:
            seen += 1
            if used < MOST_DIGITS:
                digits = digits * 10 + (np.int64(c) - ZERO)
                used += digits > 0
                power -= dot
            else:
                power += not dot
        elif c == DOT and not dot:
            dot = True
        else:
            break
        pos += 1
    if seen == 0:
        return np.nan, start
    if pos < stop and (text[pos] == 69 or text[pos] == 101):  # E or e
        sign, at, more, any_digit = 1, pos + 1, 0, False
        if at < stop and (text[at] == MINUS or text[at] == PLUS):
            sign = -1 if text[at] == MINUS else 1
            at += 1
        while at < stop and ZERO <= text[at] <= NINE:
            more = min(more * 10 + (np.int64(text[at]) - ZERO), 100000)
            any_digit = True
            at += 1
        if not any_digit:
            return np.nan, start
        power += sign * more
        pos = at
    if power < -400:
        digits, power = np.int64(0), 0
    value = 0.0 if digits == 0 else scaled(digits, power)
    return -value if negative else value, pos


@inner
def read_word(text, pos, stop, word):
    """Copy a label, without its quotes, into `word`; its length and the position after it.

    The length is -1 if a quote is never closed.
    """
    length = 0
    if text[pos] != QUOTE:
        while pos < stop and not is_mark(text[pos]):
            word[length] = text[pos]
            length += 1
            pos += 1
        return length, pos
    end = skip_quoted(text, pos, stop)
    if end == NO_END:
        return -1, pos
    at = pos + 1
    while at < end - 1:
        word[length] = text[at]
        length += 1
        at += 2 if text[at] == QUOTE else 1
    return length, end


@inner
def slot_of_name(word, length, names, ends, slots):
    """The slot of a name in the table, or the free one where it would be."""
    h = np.uint64(14695981039346656037)
    for k in range(length):
        h = (h ^ np.uint64(word[k])) * np.uint64(1099511628211)
    h ^= h >> np.uint64(29)
    slot = np.int64(h & np.uint64(slots.size - 1))
    while slots[slot] >= 0:
        entry = slots[slot]
        first = ends[entry]
        if ends[entry + 1] - first == length:
            same = True
            for k in range(length):
                same &= names[first + k] == word[k]
            if same:
                return slot
        slot = (slot + 1) & (slots.size - 1)
    return slot


@jit
def add_name(word, length, id_, names, ends, ids, slots, sizes):
    """Add a name to the table, if there is room and it is new; the entry that has it, or -1."""
    slot = slot_of_name(word, length, names, ends, slots)
    if slots[slot] >= 0:
        return slots[slot]
    entry = sizes[0]
    if entry + 1 >= ends.size or ends[entry] + length > names.size or 2 * entry >= slots.size:
        return -1
    for k in range(length):
        names[ends[entry] + k] = word[k]
    ends[entry + 1] = ends[entry] + length
    ids[entry] = id_
    slots[slot] = entry
    sizes[0] = entry + 1
    return entry


@jit
def read_nodes(
    text, start, stop, names, ends, ids, slots, sizes, grow, word, parents, leaves, lengths, places
):
    """Read one tree, up to its ';' or the end.

    grow : bool, whether unknown labels become leaves of their own
    word : uint8, room for a label; parents : int64, leaves : int64 (-1: not a leaf)
    lengths : float64 of the branch above each node (NaN: none)
    places : int64 (nodes, 3), where a node begins, and from where to where its note [&...] is
    Returns the number of nodes, the position after the tree, what is wrong and where.
    """
    pos = start
    count = 0
    current = last = -1
    stage = 0  # 0: a node is expected; 1: after a node; 2: after its label; 3: after its length
    seen = np.zeros(ids.size + 1, np.bool_)
    while True:
        while pos < stop and is_blank(text[pos]):
            pos += 1
        c = text[pos] if pos < stop else SEMICOLON
        if c == LEFT:
            end = skip_comment(text, pos, stop)
            if end == NO_END:
                return count, pos, UNCLOSED, pos
            if last >= 0 and text[pos + 1] == AND and places[last, 1] < 0:
                places[last, 1] = pos + 2
                places[last, 2] = end - 1
            pos = end
        elif stage == 0:
            if count == parents.size:
                return count, pos, TOO_MANY, pos
            if c == OPEN:
                leaf = -1
                end = pos + 1
            elif c == QUOTE or not is_mark(c):
                length, end = read_word(text, pos, stop, word)
                if length < 0:
                    return count, pos, UNCLOSED, pos
                slot = slot_of_name(word, length, names, ends, slots)
                if slots[slot] < 0:
                    if not grow:
                        return count, pos, UNKNOWN, pos
                    entry = add_name(word, length, sizes[0], names, ends, ids, slots, sizes)
                    if entry < 0:
                        return count, pos, TOO_MANY, pos
                else:
                    entry = slots[slot]
                leaf = ids[entry]
                if seen[leaf]:
                    return count, pos, REPEATED, pos
                seen[leaf] = True
            else:
                return count, pos, LABEL, pos
            parents[count] = current
            leaves[count] = leaf
            lengths[count] = np.nan
            places[count, 0] = pos
            places[count, 1] = places[count, 2] = -1
            if leaf < 0:
                current, last = count, -1
            else:
                last, stage = count, 1
            count += 1
            pos = end
        elif c == COMMA and current >= 0:
            stage, last = 0, -1
            pos += 1
        elif c == CLOSE and current >= 0:
            last, current, stage = current, parents[current], 1
            pos += 1
        elif c == SEMICOLON and current < 0:
            return count, pos + 1, DONE, pos
        elif c == COLON and stage < 3:
            stage = 3
            pos += 1
            while pos < stop and (is_blank(text[pos]) or text[pos] == LEFT):
                if text[pos] == LEFT:
                    end = skip_comment(text, pos, stop)
                    if end == NO_END:
                        return count, pos, UNCLOSED, pos
                    if text[pos + 1] == AND and places[last, 1] < 0:
                        places[last, 1] = pos + 2
                        places[last, 2] = end - 1
                    pos = end
                else:
                    pos += 1
            value, end = read_number(text, pos, stop)
            if not abs(value) < np.inf or (end < stop and not is_mark(text[end])):
                return count, pos, LENGTH, pos
            lengths[last] = value
            pos = end
        elif stage == 1 and leaves[last] < 0 and (c == QUOTE or not is_mark(c)):
            length, end = read_word(text, pos, stop, word)
            if length < 0:
                return count, pos, UNCLOSED, pos
            stage = 2
            pos = end
        else:
            return count, pos, UNEXPECTED, pos


@jit
def read_notes(text, places, count, names, ends, ids, slots, sizes, grow, word, values):
    """Read the numbers of notes: rate=0.5,name="x",range={1,2}; lists and texts are passed over.

    values : float64 (nodes, keys), filled with NaN where there is none
    Returns whether all keys were known, or there was room for them.
    """
    for node in range(count):
        for key in range(values.shape[1]):
            values[node, key] = np.nan
        pos, stop = places[node, 1], places[node, 2]
        while 0 <= pos < stop:
            length = 0
            while pos < stop and text[pos] != EQUALS and text[pos] != COMMA:
                if length < word.size:
                    word[length] = text[pos]
                    length += 1
                pos += 1
            if pos < stop and text[pos] == EQUALS:
                pos += 1
                value, end = read_number(text, pos, stop)
                if abs(value) < np.inf and (end == stop or text[end] == COMMA):
                    slot = slot_of_name(word, length, names, ends, slots)
                    if slots[slot] < 0 and grow:
                        add_name(word, length, sizes[0], names, ends, ids, slots, sizes)
                    if slots[slot] < 0 or slots[slot] >= values.shape[1]:
                        return False
                    values[node, slots[slot]] = value
                    pos = end
                depth = 0
                while pos < stop and (depth > 0 or text[pos] != COMMA):
                    depth += int(text[pos] == BRACE) - int(text[pos] == UNBRACE)
                    pos += 1
            pos += 1
    return True
